import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { DeliveryCompletion } from '#core/store/webhooks/delivery-completion.ts';
import { createDeliveryRecorder } from './delivery-recorder.ts';

const LEASE_MS = 60_000;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A database that answers from an instant on. */
function setup(awayMs: number) {
  const failures: unknown[] = [];
  const recorded: (readonly DeliveryCompletion[])[] = [];
  const begunAt = performance.now();
  const recorder = createDeliveryRecorder({
    store: {
      async completeDeliveries(rows) {
        if (performance.now() - begunAt < awayMs) throw new Error('away');
        recorded.push(rows);
        return { stale: 0 };
      },
    },
    onFailure: (error) => failures.push(error),
    signal: new AbortController().signal,
  });
  const completion = { claim: { leaseEndsAt: begunAt + LEASE_MS } } as DeliveryCompletion;
  return { recorder, completion, failures, recorded };
}

test('a claim is recorded once the database answers', async () => {
  const { recorder, completion, recorded } = setup(30_000);
  const recording = recorder.record(completion);
  await vi.advanceTimersByTimeAsync(31_000);
  await recording;
  expect(recorded).toEqual([[completion]]);
});

/** A database that refuses completions of which this is true. */
function refusing(isRefused: (row: DeliveryCompletion) => boolean) {
  const recorded: DeliveryCompletion[] = [];
  const recorder = createDeliveryRecorder({
    store: {
      async completeDeliveries(rows) {
        if (rows.some(isRefused))
          throw Object.assign(new Error('refused'), { name: 'PostgresError', code: '22P05' });
        recorded.push(...rows);
        return { stale: 0 };
      },
    },
    onFailure: () => undefined,
    signal: new AbortController().signal,
  });
  const attempt = { seq: 1, attempt: 1, status: 500, error: null, answer: 'bad' };
  const again = [{ seq: 1, attempts: 1, dueAt: new Date(0), messageSeq: null }];
  const completion = {
    claim: { leaseEndsAt: performance.now() + LEASE_MS },
    attempts: [attempt],
    again,
  } as unknown as DeliveryCompletion;
  const record = async (row = completion) => {
    const recording = recorder.record(row);
    await vi.advanceTimersByTimeAsync(1_000);
    return recording;
  };
  return { record, completion, recorded };
}

test('a claim that the database refuses is recorded without the answers, so that its retry keeps to the schedule', async () => {
  const { record, completion, recorded } = refusing(({ attempts }) =>
    attempts.some((one) => one.answer !== null),
  );
  expect(await record()).toBe(true);
  expect(recorded).toEqual([{ ...completion, attempts: [{ ...completion.attempts[0], answer: null }] }]);
});

test('a claim that the database refuses still is recorded without its calls, and other claims are as they are', async () => {
  const { record, completion, recorded } = refusing(({ attempts }) => attempts.length === 1);
  const other = { ...completion, attempts: [] };
  expect(await Promise.all([record(), record(other)])).toEqual([true, true]);
  expect(recorded).toEqual([other, { ...completion, attempts: [] }]);
});

test('a claim that the database refuses in any form is reported as not recorded', async () => {
  const { record, recorded } = refusing(() => true);
  expect([await record(), recorded]).toEqual([false, []]);
});

test('a claim is given up when its lease is over, because others claim its events again', async () => {
  const { recorder, completion, failures, recorded } = setup(10 * LEASE_MS);
  const recording = recorder.record(completion);
  await vi.advanceTimersByTimeAsync(LEASE_MS + 1_000);
  await recording;
  expect(recorded).toEqual([]);
  expect(failures.length).toBeGreaterThan(5);
});
