import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { RECONCILE_SECONDS } from './reconcile-metrics.ts';

/** A key's waiting time: from none to the longest backoff. */
const QUEUE_SECONDS = [0.000_1, 0.001, 0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1_000];

/** Read from a work queue at a scrape, in seconds. */
type RunningWork = { readonly unfinished: number; readonly longest: number };

export function workqueueMetrics(registry: Registry, names: readonly string[]) {
  const on = [registry];
  const labelNames = ['name'] as const;
  const running = new Map<string, () => RunningWork>();
  const depth = new Gauge({
    name: 'workqueue_depth',
    help: 'Keys that wait for a worker.',
    labelNames,
    registers: on,
  });
  const adds = new Counter({
    name: 'workqueue_adds_total',
    help: 'Keys that began to wait; one that waits already is not counted again.',
    labelNames,
    registers: on,
  });
  const retries = new Counter({
    name: 'workqueue_retries_total',
    help: 'Keys that were put back with a delay after a failure.',
    labelNames,
    registers: on,
  });
  const queueSeconds = new Histogram({
    name: 'workqueue_queue_duration_seconds',
    help: 'How long a key waited.',
    labelNames,
    buckets: QUEUE_SECONDS,
    registers: on,
  });
  const workSeconds = new Histogram({
    name: 'workqueue_work_duration_seconds',
    help: 'How long a worker had a key.',
    labelNames,
    buckets: RECONCILE_SECONDS,
    registers: on,
  });
  sampledPerName(registry, running, 'workqueue_unfinished_work_seconds', {
    help: 'Time that the work under way has taken so far, summed up; a rising value shows stuck workers.',
    of: ({ unfinished }) => unfinished,
  });
  sampledPerName(registry, running, 'workqueue_longest_running_processor_seconds', {
    help: 'Time that the oldest work under way has taken so far.',
    of: ({ longest }) => longest,
  });
  for (const name of names) {
    running.set(name, () => ({ unfinished: 0, longest: 0 }));
    depth.set({ name }, 0);
    adds.inc({ name }, 0);
    retries.inc({ name }, 0);
    queueSeconds.zero({ name });
    workSeconds.zero({ name });
  }
  return (name: string) => ({
    depth: (keys: number): void => depth.set({ name }, keys),
    added: (): void => adds.inc({ name }),
    retried: (): void => retries.inc({ name }),
    waited: (seconds: number): void => queueSeconds.observe({ name }, seconds),
    worked: (seconds: number): void => workSeconds.observe({ name }, seconds),
    running: (read: () => RunningWork): void => void running.set(name, read),
  });
}

function sampledPerName(
  registry: Registry,
  running: ReadonlyMap<string, () => RunningWork>,
  name: string,
  { help, of }: { readonly help: string; readonly of: (work: RunningWork) => number },
): void {
  const gauge: Gauge<'name'> = new Gauge({
    name,
    help,
    labelNames: ['name'],
    registers: [registry],
    collect() {
      for (const [queue, read] of running) gauge.set({ name: queue }, of(read()));
    },
  });
}
