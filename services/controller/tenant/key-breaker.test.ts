import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { KeyringError } from '#core/platform/vault/keyring.ts';
import { withKeyBreaker } from './key-breaker.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const TENANT = 't' as TenantId;
const KEY = { name: 'k', latestVersion: 1, rotatedAt: new Date(0), made: false };
const TIMEOUT = new KeyringError('unavailable', 'no answer', { fault: 'deadline' });

/** A breaker over calls that end as scripted; the last script repeats. */
function setup(...script: (() => Promise<typeof KEY>)[]) {
  const calls: number[] = [];
  const ensure = withKeyBreaker(() => {
    calls.push(performance.now());
    const act = script.length > 1 ? script.shift() : script[0];
    return act?.() ?? Promise.resolve(KEY);
  });
  const start = performance.now();
  return {
    calls: () => calls.map((at) => at - start),
    ask: () =>
      ensure(TENANT).then(
        () => 'key',
        (error: Error) => error.message,
      ),
  };
}

const late = () => Promise.reject(TIMEOUT);
const NOT_CALLED = 'Vault was not called: it did not answer the last calls';

test('after three calls without an answer, calls fail at once', async () => {
  const { ask, calls } = setup(late);
  for (let i = 0; i < 3; i += 1) expect(await ask()).toBe('no answer');
  expect(await ask()).toBe(NOT_CALLED);
  expect(calls()).toHaveLength(3);
});

test('then one call at a time tests whether Vault answers', async () => {
  const held = Promise.withResolvers<typeof KEY>();
  const { ask, calls } = setup(
    late,
    late,
    late,
    late,
    () => held.promise,
    () => Promise.resolve(KEY),
  );
  for (let i = 0; i < 3; i += 1) await ask();
  vi.advanceTimersByTime(5_000);
  expect([await ask(), await ask()]).toEqual(['no answer', NOT_CALLED]);
  vi.advanceTimersByTime(5_000);
  const tested = ask();
  vi.advanceTimersByTime(60_000);
  expect(await ask()).toBe(NOT_CALLED);
  held.resolve(KEY);
  expect([await tested, await ask(), await ask()]).toEqual(['key', 'key', 'key']);
  expect(calls()).toEqual([0, 0, 0, 5_000, 10_000, 70_000, 70_000]);
});

test.each([
  ['an answer', () => Promise.resolve(KEY)],
  ['a refusal', () => Promise.reject(new KeyringError('refused', 'no'))],
  ['a refused connection', () => Promise.reject(new KeyringError('unavailable', 'no'))],
])('%s between timeouts keeps the breaker closed', async (_what, answer) => {
  const { ask, calls } = setup(late, late, answer, late, late, late);
  for (let i = 0; i < 5; i += 1) await ask();
  expect(await ask()).toBe('no answer');
  expect(calls()).toHaveLength(6);
});
