import { setTimeout as pause } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { createWorkerMetrics } from '#core/platform/telemetry/worker-metrics.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import { startTestWorker } from '#test/support/test-worker.ts';
import { createEvents } from './events.ts';

const NOW = Date.parse('2026-01-01T00:00:00Z');

/** A database that refuses every call. */
const refusing = new Proxy({} as WorkerStore, {
  get: () => () => Promise.reject(new Error('permission denied')),
});

/** What no test here calls. */
const UNUSED = {
  credentials: {
    get: async () => ({ ok: false, reason: 'missing' }) as const,
    invalidate: () => undefined,
    forgetStale: () => undefined,
    autonomySeconds: () => null,
  },
  twilioOrigin: 'https://api.example',
};

test('a task that never succeeded has the start as its last success, and failures are counted', async () => {
  await using stack = new AsyncDisposableStack();
  const metrics = createWorkerMetrics();
  const events = createEvents(silentLogger, metrics, () => NOW);
  const failed = new Set<string>();
  startTestWorker(stack, {
    store: refusing,
    ...UNUSED,
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

/** A database in which there is always more to do. */
const busy = new Proxy({} as WorkerStore, {
  get: (_, name) => async (most: number) => {
    await pause(5);
    const batches: Record<string, unknown> = {
      countUsage: { outcome: 'more', windows: [] },
      numberChanges: { outcome: 'more', numbered: 200, endpointTenants: [] },
      settleContents: most,
      releaseDeliveries: most,
      applyReceipts: {
        results: Array.from({ length: most }, () => ({ tenantId: 't', provider: 'twilio' })),
        waitedMs: 0,
      },
    };
    if (name in batches) return batches[String(name)];
    throw new Error('permission denied');
  },
});

test('a task that always has more to do succeeds with each full batch', async () => {
  await using stack = new AsyncDisposableStack();
  const succeeded = new Map<string, number>();
  startTestWorker(stack, {
    store: busy,
    ...UNUSED,
    events: {
      ...createEvents(silentLogger, createWorkerMetrics(), () => NOW),
      taskSucceeded: (task) => void succeeded.set(task, (succeeded.get(task) ?? 0) + 1),
    },
  });
  for (const task of ['usage', 'numbering', 'contents', 'receipts'])
    await expect
      .poll(() => [task, succeeded.get(task) ?? 0])
      .toEqual([task, expect.toSatisfy((n: number) => n > 2)]);
});
