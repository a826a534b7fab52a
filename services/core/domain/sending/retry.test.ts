import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { AMBIGUOUS_RETRY_MS, providerWaitMs, throttleWaitMs } from './retry.ts';

const seconds = (waitMs: (waits: number) => number) =>
  [0, 1, 2, 3, 4, 5, 32_000].map((waits) => waitMs(waits) / 1_000);

test('a message waits half a minute to five minutes for an account with a refused credential', () => {
  expect(seconds((waits) => providerWaitMs(waits, 0))).toEqual([30, 60, 120, 300, 300, 300, 300]);
});

test('a throttled message waits a second to a minute, and at least as long as the provider requests', () => {
  expect(seconds((waits) => throttleWaitMs(waits, 0))).toEqual([1, 2, 5, 15, 60, 60, 60]);
  expect(seconds((waits) => throttleWaitMs(waits, 0, 10_000))).toEqual([10, 10, 10, 15, 60, 60, 60]);
});

test('an ambiguous call is repeated after two seconds', () => {
  expect(AMBIGUOUS_RETRY_MS).toBe(2_000);
});

test('waits are spread by up to a fifth and never shortened', () => {
  fc.assert(
    fc.property(fc.nat(9), fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }), (waits, random) => {
      for (const waitMs of [providerWaitMs, throttleWaitMs])
        expect(waitMs(waits, random)).toBe(Math.round(waitMs(waits, 0) * (1 + random / 5)));
    }),
  );
});
