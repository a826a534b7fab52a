import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { heapUsed } from '#test/support/heap-growth.ts';
import { createSidePace } from './side-pace.ts';

beforeEach(() => {
  vi.useFakeTimers();
  startedAt = performance.now();
});
afterEach(() => void vi.useRealTimers());

const STEP_MS = 40;
let startedAt = 0;
const surplus = () => ({ surplus: 1, waitedMs: 0 });
const expected = () => ({ surplus: 0, waitedMs: 0 });

function setup(isSending: boolean) {
  const stop = new AbortController();
  const pace = createSidePace({ kind: 'events', isSending: () => isSending, signal: stop.signal });
  const work = (of = surplus) =>
    pace(
      'surplus',
      async () => {
        const from = performance.now();
        await new Promise((resolve) => setTimeout(resolve, STEP_MS));
        return { from, until: performance.now() };
      },
      of,
    );
  return { pace, work, stop };
}

const sinceStart = (at = Number.NaN): number => at - startedAt;

/** Waits for all, on a clock that goes on as soon as nothing but timers is left. */
async function ended<Result>(...all: readonly Promise<Result>[]): Promise<Result[]> {
  await vi.runAllTimersAsync();
  return Promise.all(all);
}

test('while messages are sent, surplus batches are separated by twice the time they take', async () => {
  const { work } = setup(true);
  const [first, second] = await ended(work(), work());
  expect([first?.until, second?.from].map(sinceStart)).toEqual([STEP_MS, 3 * STEP_MS]);
});

test('while messages are sent, expected batches run one after the other without a pause', async () => {
  const { work } = setup(true);
  const [first, second] = await ended(work(expected), work(expected));
  expect([first?.until, second?.from].map(sinceStart)).toEqual([STEP_MS, STEP_MS]);
});

test('while no messages are sent, batches run concurrently', async () => {
  const { work } = setup(false);
  const [first, second] = await ended(work(), work());
  expect([first?.from, second?.from].map(sinceStart)).toEqual([0, 0]);
});

test('a failed batch rejects for its caller, and the next one runs', async () => {
  const { pace, work } = setup(true);
  await expect(pace('surplus', () => Promise.reject(new Error('away')), surplus)).rejects.toThrow('away');
  expect(await ended(work())).toMatchObject([{ from: expect.any(Number) }]);
});

test('stopping ends the pause', async () => {
  const { work, stop } = setup(true);
  const before = work();
  const next = work();
  await vi.advanceTimersByTimeAsync(2 * STEP_MS);
  stop.abort();
  const [first, second] = await ended(before, next);
  expect([first?.until, second?.from].map(sinceStart)).toEqual([STEP_MS, 2 * STEP_MS]);
});

test.each([true, false])('a batch leaves nothing behind in memory, while sending: %s', async (isSending) => {
  vi.useRealTimers();
  const { pace } = setup(isSending);
  const heldAfter = async (batches: number): Promise<number> => {
    for (let n = 0; n < batches; n++) await pace('surplus', () => Promise.resolve(), expected);
    return heapUsed();
  };
  const before = await heldAfter(10_000);
  const bytesEach = ((await heldAfter(100_000)) - before) / 100_000;
  expect(bytesEach).toBeLessThan(16);
});
