import { expect, test } from 'vitest';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { createWorkerMetrics } from '#core/platform/telemetry/metrics.ts';
import type { DeliveryStore } from '#core/store/deliveries.ts';
import { startTestWorker } from '#test/support/test-worker.ts';
import { createEvents } from './events.ts';

const NOW = Date.parse('2026-01-01T00:00:00Z');

/** A database that refuses everything. */
const refusing = new Proxy({} as DeliveryStore, {
  get: () => () => Promise.reject(new Error('permission denied')),
});

test('a task that has never succeeded has a time all the same, that of its start', async () => {
  await using stack = new AsyncDisposableStack();
  const metrics = createWorkerMetrics();
  const events = createEvents(silentLogger, metrics, () => NOW);
  const failed = new Set<string>();
  startTestWorker(stack, {
    store: refusing,
    credentials: {
      get: async () => ({ ok: false, reason: 'missing' }),
      invalidate: () => undefined,
      forgetStale: () => undefined,
      autonomySeconds: () => null,
    },
    twilioOrigin: 'https://api.example',
    events: { ...events, taskFailed: (task) => void failed.add(task) },
  });
  await expect.poll(() => [...failed]).toEqual(expect.arrayContaining(['sweep', 'numbering', 'maintain']));
  const { values } = await metrics.taskSuccess.get();
  const times = new Map(values.map(({ labels, value }) => [labels.task, value]));
  for (const task of failed) expect([task, times.get(task)]).toEqual([task, NOW / 1_000]);
});
