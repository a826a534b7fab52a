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

test('a claim is given up when its lease is over, because others claim its events again', async () => {
  const { recorder, completion, failures, recorded } = setup(10 * LEASE_MS);
  const recording = recorder.record(completion);
  await vi.advanceTimersByTimeAsync(LEASE_MS + 1_000);
  await recording;
  expect(recorded).toEqual([]);
  expect(failures.length).toBeGreaterThan(5);
});
