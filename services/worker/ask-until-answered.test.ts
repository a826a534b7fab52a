import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { AMBIGUOUS_RETRY_MS } from '#core/domain/sending/retry.ts';
import { askUntilAnswered } from './ask-until-answered.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A database that answers from an instant on. */
function setup(awayMs: number) {
  const failures: unknown[] = [];
  const asked: number[] = [];
  const begunAt = performance.now();
  const ask = async (): Promise<string> => {
    asked.push(performance.now() - begunAt);
    if (performance.now() - begunAt < awayMs) throw new Error('away');
    return 'answer';
  };
  const onFailure = (error: unknown): void => void failures.push(error);
  const aborting = new AbortController();
  return { ask, asked, failures, aborting, deps: { onFailure, signal: aborting.signal } };
}

test('an answer is stored before another worker repeats the call, however long the database was away', async () => {
  const awayMs = 600_100;
  const { ask, asked, deps } = setup(awayMs);
  const answer = askUntilAnswered(ask, 1, deps);
  await vi.advanceTimersByTimeAsync(awayMs + AMBIGUOUS_RETRY_MS);
  expect(await answer).toBe('answer');
  expect((asked.at(-1) ?? Infinity) - awayMs).toBeLessThan(AMBIGUOUS_RETRY_MS / 2);
});

test('failures are reported at once, and then at most every five seconds', async () => {
  const { ask, asked, failures, deps } = setup(60_000);
  const answer = askUntilAnswered(ask, 1, deps);
  await vi.advanceTimersByTimeAsync(0);
  expect(failures).toHaveLength(1);
  await vi.advanceTimersByTimeAsync(61_000);
  await answer;
  expect(failures.length).toBeLessThanOrEqual(13);
  expect(failures.length).toBeGreaterThan(5);
  expect(asked.length).toBeGreaterThan(100);
});

test('a final error is thrown without another query', async () => {
  const { ask, asked, deps } = setup(60_000);
  await expect(askUntilAnswered(ask, 1, deps, () => true)).rejects.toThrow('away');
  expect(asked).toHaveLength(1);
});

test('after an abort the database is asked once more, without a wait', async () => {
  const { ask, asked, aborting, deps } = setup(60_000);
  const answer = askUntilAnswered(ask, 1, deps);
  await vi.advanceTimersByTimeAsync(10_000);
  const before = asked.length;
  aborting.abort();
  await expect(answer).rejects.toThrow('away');
  expect(asked).toHaveLength(before + 1);
});
