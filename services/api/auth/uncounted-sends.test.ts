import * as fc from 'fast-check';
import { expect, test } from 'vitest';
import { createUncountedSends, uncountedLimit } from './uncounted-sends.ts';

function setup() {
  let ms = 0;
  const sends = createUncountedSends(() => ms);
  return {
    ...sends,
    at(next: number) {
      ms = next;
    },
  };
}

test('a key that has used its allowance waits until its oldest second leaves the one-minute window', () => {
  const { note, retryAfter, at } = setup();
  for (let i = 0; i < 1_000; i++) {
    at(i * 10);
    expect(retryAfter('key', 1_000)).toBeUndefined();
    note('key');
  }
  expect(retryAfter('key', 1_000)).toBe(52);
  at(60_999);
  expect(retryAfter('key', 1_000)).toBe(1);
  at(61_000);
  expect(retryAfter('key', 1_000)).toBeUndefined();
  expect([retryAfter('key', 900), retryAfter('other', 1_000)]).toEqual([1, undefined]);
});

test('a key with a small limit may repeat accepted requests hundreds of times', () => {
  expect([5, 6_000].map((limit) => uncountedLimit(limit).value)).toEqual([600, 6_000]);
  const { note, retryAfter } = setup();
  for (let i = 0; i < 599; i++) note('key');
  expect(retryAfter('key', 5)).toBeUndefined();
  note('key');
  expect(retryAfter('key', 5)).toBe(61);
});

test('a key may send after retryAfter, and no minute holds more sends than it is allowed', () => {
  const gaps = fc.array(fc.nat(20_000), { minLength: 7, maxLength: 30 });
  fc.assert(
    fc.property(gaps, (waits) => {
      const { note, retryAfter, at } = setup();
      const heard: number[] = [];
      let ms = 0;
      for (const wait of waits.flatMap((gap) => [gap, ...Array<number>(99).fill(gap % 5)])) {
        ms += wait % 7 === 0 ? wait : wait % 50;
        at(ms);
        const seconds = retryAfter('key', 60);
        if (seconds !== undefined) {
          ms += seconds * 1_000;
          at(ms);
          expect(retryAfter('key', 60)).toBeUndefined();
        }
        note('key');
        heard.push(ms);
      }
      for (let i = 600; i < heard.length; i++)
        expect((heard[i] ?? 0) - (heard[i - 600] ?? 0)).toBeGreaterThan(60_000);
    }),
  );
});

test('a batch counts as at most a quarter of what its key is allowed', () => {
  const { noteBatch, retryAfter } = createUncountedSends(() => 0);
  for (const limit of [1_000, 10]) {
    const key = `key of ${limit}`;
    const held: boolean[] = [];
    for (let batches = 0; batches < 4; batches += 1) {
      noteBatch(key, limit, 500);
      held.push(retryAfter(key, limit) !== undefined);
    }
    expect(held).toEqual([false, false, false, true]);
  }
  noteBatch('small', 600, 3);
  noteBatch('small', 600, 0);
  expect(retryAfter('small', 60)).toBeUndefined();
});
