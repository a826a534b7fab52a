import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { createExpectedWork, TENANT_BUCKET } from '#core/domain/queue/expected-work.ts';
import { createReceiptPace, type ReceiptWork } from './receipt-pace.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const STEP_MS = 40;
/** Nearly all of a storm is surplus, so its rest is a little shorter than four times the work. */
const REST_MS = [0.95 * 4 * STEP_MS, 4 * STEP_MS] as const;
/** Nearly all of these receipts are surplus. */
const STORM = 100 * TENANT_BUCKET.burst;

function setup(isSending = true) {
  const stop = new AbortController();
  const expected = createExpectedWork();
  const pace = createReceiptPace({ expected, isSending: () => isSending, signal: stop.signal });
  const work = async () => {
    const from = performance.now();
    await new Promise((resolve) => setTimeout(resolve, STEP_MS));
    return { from, until: performance.now() };
  };
  const workOf = (tenant: string, n: number) => (): ReceiptWork => ({
    receipts: new Map([[tenant, n]]),
    waitedMs: 0,
  });
  return {
    pace,
    stop,
    few: () => pace.run('expected', work, workOf('quiet', 1)),
    surplus: () => pace.run('expected', work, workOf('loud', STORM)),
    rested: () => pace.run('surplus', work, workOf('loud', STORM)),
  };
}

/** Waits for all, on a clock that goes on as soon as nothing but timers is left. */
async function ended<Result>(...all: readonly Promise<Result>[]): Promise<Result[]> {
  await vi.runAllTimersAsync();
  return Promise.all(all);
}

type Ran = { readonly from: number; readonly until: number };
const gap = (before: Ran | undefined, next: Ran | undefined): number =>
  (next?.from ?? Number.NaN) - (before?.until ?? Number.NaN);

const isRest = (ms: number): boolean => REST_MS[0] <= ms && ms <= REST_MS[1];

test('expected receipts are processed one batch after the other, without a rest', async () => {
  const { few } = setup();
  const [first, second] = await ended(few(), few());
  expect(gap(first, second)).toBe(0);
});

test('surplus receipts rest for four times the time they take, and expected ones continue meanwhile', async () => {
  const { pace, surplus, rested, few } = setup();
  const [first] = await ended(surplus());
  expect(pace.withSurplus()).toEqual(new Set(['loud']));
  const [later, another, straight] = await ended(rested(), rested(), few());
  expect(gap(first, straight)).toBe(0);
  expect([gap(first, later), gap(later, another)]).toSatisfy((gaps: number[]) => gaps.every(isRest));
});

test('the time in which receipts were read before their turn counts too', async () => {
  const { pace, rested } = setup();
  const begun = performance.now();
  await pace.run(
    'expected',
    () => Promise.resolve(),
    () => ({ receipts: new Map([['loud', STORM]]), waitedMs: 0, readMs: STEP_MS }),
  );
  const [next] = await ended(rested());
  expect((next?.from ?? Number.NaN) - begun).toSatisfy(isRest);
});

test('a batch of surplus receipts gets its turn despite a steady stream of expected ones', async () => {
  const { surplus, rested, few } = setup();
  await ended(surplus());
  const over = new AbortController();
  const later = rested().finally(() => over.abort());
  let pieces = 0;
  async function stream(): Promise<void> {
    for (; !over.signal.aborted; pieces++) await few();
  }
  await ended<unknown>(later, stream());
  // Those of the rest, and one that began before the surplus batch.
  expect(pieces).toBeLessThanOrEqual(REST_MS[1] / STEP_MS + 1);
});

test('while no messages are sent, batches run concurrently and no tenant has surplus', async () => {
  const { pace, surplus, rested } = setup(false);
  const [first, second] = await ended(surplus(), rested());
  expect(gap(first, second)).toBe(-STEP_MS);
  expect(pace.withSurplus()).toEqual(new Set());
});

test('a failed batch rejects for its caller, and the next one runs', async () => {
  const { pace, few } = setup();
  const failing = pace.run(
    'expected',
    () => Promise.reject(new Error('away')),
    () => ({ receipts: new Map(), waitedMs: 0 }),
  );
  await expect(failing).rejects.toThrow('away');
  expect(await ended(few())).toMatchObject([{ from: expect.any(Number) }]);
});

test('stopping ends the rest', async () => {
  const { surplus, rested, stop } = setup();
  const [first] = await ended(surplus());
  const next = rested();
  await vi.advanceTimersByTimeAsync(STEP_MS);
  stop.abort();
  const [second] = await ended(next);
  expect(gap(first, second)).toBe(STEP_MS);
});
