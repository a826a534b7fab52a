import { expect, test } from 'vitest';
import { createExpectedWork, TENANT_BUCKET } from '#core/domain/queue/expected-work.ts';
import { createReceiptPace, type ReceiptWork } from './receipt-pace.ts';

const STEP_MS = 40;
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
    few: () => pace.run(work, workOf('quiet', 1)),
    surplus: () => pace.run(work, workOf('loud', STORM)),
    rested: () => pace.runSurplus(work, workOf('loud', STORM)),
  };
}

test('expected receipts are processed one batch after the other, without a rest', async () => {
  const { few } = setup();
  const [first, second] = await Promise.all([few(), few()]);
  expect(second.from).toBeGreaterThanOrEqual(first.until);
  expect(second.from - first.until).toBeLessThan(STEP_MS);
});

test('surplus receipts rest for twice the time they take, and expected ones continue meanwhile', async () => {
  const { pace, surplus, rested, few } = setup();
  const first = await surplus();
  expect(pace.withSurplus()).toEqual(new Set(['loud']));
  const [later, another, straight] = await Promise.all([rested(), rested(), few()]);
  expect(straight.from - first.until).toBeLessThan(STEP_MS);
  expect(later.from - first.until).toBeGreaterThanOrEqual(2 * STEP_MS * 0.95 - 5);
  expect(another.from - later.until).toBeGreaterThanOrEqual(2 * STEP_MS * 0.95 - 5);
});

test('the time in which receipts were read before their turn counts too', async () => {
  const { pace, rested } = setup();
  await pace.run(
    () => Promise.resolve(),
    () => ({ receipts: new Map([['loud', STORM]]), waitedMs: 0, readMs: STEP_MS }),
  );
  const begun = performance.now();
  expect((await rested()).from - begun).toBeGreaterThanOrEqual(2 * STEP_MS * 0.95 - 5);
});

test('a batch of surplus receipts gets its turn despite a steady stream of expected ones', async () => {
  const { surplus, rested, few } = setup();
  await surplus();
  const over = new AbortController();
  let pieces = 0;
  const later = rested().finally(() => over.abort());
  while (!over.signal.aborted) {
    await few();
    pieces++;
  }
  await later;
  // A rest lasts at most a second.
  expect(pieces).toBeLessThan(50);
});

test('while no messages are sent, batches run concurrently and no tenant has surplus', async () => {
  const { pace, surplus, rested } = setup(false);
  const [first, second] = await Promise.all([surplus(), rested()]);
  expect(second.from).toBeLessThan(first.until);
  expect(pace.withSurplus()).toEqual(new Set());
});

test('a failed batch rejects for its caller, and the next one runs', async () => {
  const { pace, few } = setup();
  const failing = pace.run(
    () => Promise.reject(new Error('away')),
    () => ({ receipts: new Map(), waitedMs: 0 }),
  );
  await expect(failing).rejects.toThrow('away');
  expect(await few()).toMatchObject({ from: expect.any(Number) });
});

test('stopping ends the rest', async () => {
  const { pace, rested, stop } = setup();
  const long = () => new Promise((resolve) => setTimeout(resolve, 1_000));
  await pace.run(long, () => ({ receipts: new Map([['loud', STORM]]), waitedMs: 0 }));
  const next = rested();
  const from = performance.now();
  stop.abort();
  await next;
  expect(performance.now() - from).toBeLessThan(900);
});
