import { expect, test } from 'vitest';
import { heapUsed } from '#test/support/heap-growth.ts';
import { createRestPace } from './rest-pace.ts';

const STEP_MS = 40;
const surplus = () => ({ surplus: 1, waitedMs: 0 });
const expected = () => ({ surplus: 0, waitedMs: 0 });

function setup(isSending: boolean) {
  const stop = new AbortController();
  const pace = createRestPace({ isSending: () => isSending, signal: stop.signal });
  const work = (of = surplus) =>
    pace(async () => {
      const from = performance.now();
      await new Promise((resolve) => setTimeout(resolve, STEP_MS));
      return { from, until: performance.now() };
    }, of);
  return { pace, work, stop };
}

test('while messages are sent, surplus batches are separated by twice the time they take', async () => {
  const { work } = setup(true);
  const [first, second] = await Promise.all([work(), work()]);
  expect(second.from - first.until).toBeGreaterThanOrEqual(2 * STEP_MS - 5);
});

test('while messages are sent, expected batches run one after the other without a pause', async () => {
  const { work } = setup(true);
  const [first, second] = await Promise.all([work(expected), work(expected)]);
  expect(second.from).toBeGreaterThanOrEqual(first.until);
  expect(second.from - first.until).toBeLessThan(STEP_MS);
});

test('while no messages are sent, batches run concurrently', async () => {
  const { work } = setup(false);
  const [first, second] = await Promise.all([work(), work()]);
  expect(second.from).toBeLessThan(first.until);
});

test('a failed batch rejects for its caller, and the next one runs', async () => {
  const { pace, work } = setup(true);
  await expect(pace(() => Promise.reject(new Error('away')), surplus)).rejects.toThrow('away');
  expect(await work()).toMatchObject({ from: expect.any(Number) });
});

test('stopping ends the pause', async () => {
  const { pace, work, stop } = setup(true);
  await pace(() => new Promise((resolve) => setTimeout(resolve, 1_000)), surplus);
  const next = work();
  const from = performance.now();
  stop.abort();
  await next;
  expect(performance.now() - from).toBeLessThan(1_500);
});

test.each([true, false])('a batch leaves nothing behind in memory, while sending: %s', async (isSending) => {
  const { pace } = setup(isSending);
  const heldAfter = async (batches: number): Promise<number> => {
    for (let n = 0; n < batches; n++) await pace(() => Promise.resolve(), expected);
    return heapUsed();
  };
  const before = await heldAfter(10_000);
  const bytesEach = ((await heldAfter(100_000)) - before) / 100_000;
  expect(bytesEach).toBeLessThan(16);
});
