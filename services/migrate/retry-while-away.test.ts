import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { retryWhileAway, type AwayRetry } from './retry-while-away.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const REFUSED = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
const FORBIDDEN = Object.assign(new Error('permission denied'), { name: 'PostgresError', code: '42501' });

/** Runs work that fails with these errors and then succeeds. */
function run(failures: readonly Error[]) {
  const left = [...failures];
  const retries: AwayRetry[] = [];
  const ended = retryWhileAway(
    async () => {
      const failure = left.shift();
      if (failure !== undefined) throw failure;
      return 'done';
    },
    (retry) => void retries.push(retry),
  );
  return { ended, retries };
}

test('waits for an unavailable database, longer each time, and reports every wait', async () => {
  const { ended, retries } = run(Array.from({ length: 8 }, () => REFUSED));
  await vi.runAllTimersAsync();
  expect(await ended).toBe('done');
  expect(retries.map(({ tries }) => tries)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
  expect(retries.map(({ error }) => error)).toEqual(Array.from({ length: 8 }, () => REFUSED));
  for (const [n, { nextTryMs }] of retries.entries()) {
    expect(nextTryMs).toBeLessThanOrEqual(Math.min(15_000, 1_000 * 2 ** n));
    expect(nextTryMs).toBeGreaterThanOrEqual(Math.min(7_500, 500 * 2 ** n));
  }
});

test('gives up after ten minutes', async () => {
  const { ended, retries } = run(Array.from({ length: 1_000 }, () => REFUSED));
  const failed = ended.catch((error: unknown) => error);
  const start = performance.now();
  await vi.runAllTimersAsync();
  expect(await failed).toBe(REFUSED);
  expect(performance.now() - start).toBeGreaterThan(580_000);
  expect(performance.now() - start).toBeLessThanOrEqual(600_000);
  expect(retries.length).toBeGreaterThan(40);
});

test('other failures are final', async () => {
  const { ended, retries } = run([FORBIDDEN]);
  await expect(ended).rejects.toBe(FORBIDDEN);
  expect(retries).toEqual([]);
});
