import { expect, test } from 'vitest';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { createWorkerMetrics } from '#core/platform/telemetry/metrics.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import { startTestWorker } from '#test/support/test-worker.ts';
import { createEvents } from './events.ts';

const NOW = Date.parse('2026-01-01T00:00:00Z');

/** A database that refuses every call. */
const refusing = new Proxy({} as WorkerStore, {
  get: () => () => Promise.reject(new Error('permission denied')),
});

test('a task that never succeeded has the start as its last success, and failures are counted', async () => {
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
    events: {
      ...events,
      taskFailed(task, error) {
        failed.add(task);
        events.taskFailed(task, error);
      },
    },
  });
  await expect.poll(() => [...failed]).toEqual(expect.arrayContaining(['sweep', 'numbering', 'maintain']));
  const byTask = async (name: string) => {
    const [metric] = (await metrics.registry.getMetricsAsJSON()).filter((one) => one.name === name);
    return new Map(metric?.values.map(({ labels, value }) => [labels['task'], value]));
  };
  const times = await byTask('despatch_task_last_success_timestamp_seconds');
  const failures = await byTask('despatch_task_failures_total');
  expect([...failures.keys()]).toEqual(expect.arrayContaining([...times.keys()]));
  for (const task of failed) {
    expect([task, times.get(task)]).toEqual([task, NOW / 1_000]);
    expect([task, failures.get(task) ?? 0]).toEqual([task, expect.toSatisfy((n: number) => n > 0)]);
  }
});
