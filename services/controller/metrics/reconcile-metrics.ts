import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** Result of a reconcile: `requeue_after` asked to be called again, `error` was thrown. */
const RECONCILE_RESULTS = ['success', 'requeue_after', 'error'] as const;
type ReconcileOutcome = (typeof RECONCILE_RESULTS)[number];

/** Duration of a pass over one object: from one without a change to one that waits for Vault and the database. */
export const RECONCILE_SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

export function reconcileMetrics(registry: Registry, controllers: readonly string[]) {
  const on = [registry];
  const labelNames = ['controller'] as const;
  const total = new Counter({
    name: 'controller_runtime_reconcile_total',
    help: 'Reconciles by result.',
    labelNames: ['controller', 'result'],
    registers: on,
  });
  const errors = new Counter({
    name: 'controller_runtime_reconcile_errors_total',
    help: 'Reconciles that failed.',
    labelNames,
    registers: on,
  });
  const seconds = new Histogram({
    name: 'controller_runtime_reconcile_time_seconds',
    help: 'Time of a reconcile.',
    labelNames,
    buckets: RECONCILE_SECONDS,
    registers: on,
  });
  const activeWorkers = new Gauge({
    name: 'controller_runtime_active_workers',
    help: 'Reconciles under way.',
    labelNames,
    registers: on,
  });
  const workersMax = new Gauge({
    name: 'controller_runtime_max_concurrent_reconciles',
    help: 'Reconciles that may be under way at once.',
    labelNames,
    registers: on,
  });
  for (const controller of controllers) {
    for (const result of RECONCILE_RESULTS) total.inc({ controller, result }, 0);
    errors.inc({ controller }, 0);
    seconds.zero({ controller });
    activeWorkers.set({ controller }, 0);
    workersMax.set({ controller }, 0);
  }
  return {
    concurrency: (controller: string, workers: number): void => workersMax.set({ controller }, workers),
    started: (controller: string): void => activeWorkers.inc({ controller }),
    finished(controller: string, end: { readonly result: ReconcileOutcome; readonly seconds: number }): void {
      activeWorkers.dec({ controller });
      total.inc({ controller, result: end.result });
      seconds.observe({ controller }, end.seconds);
      if (end.result === 'error') errors.inc({ controller });
    },
  };
}
