import { Histogram, type Registry } from 'prom-client';
import { sampled } from '#core/platform/telemetry/sampled-metrics.ts';

/** From an immediate pass to an outage; the objective is one minute. */
const CONVERGENCE_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];

/**
 * Metrics of how long changes of resources take to come into force. A change that never comes into force shows only in the
 * current wait.
 */
export function convergenceMetrics(registry: Registry) {
  const seconds = new Histogram({
    name: 'despatch_convergence_seconds',
    help: 'Time from a change of a Tenant, or of its Plan, until its status was Ready for it.',
    buckets: CONVERGENCE_SECONDS,
    registers: [registry],
  });
  return {
    /** @param took In seconds. */
    converged: (took: number): void => seconds.observe(took),
    longestConvergence: sampled(
      registry,
      'despatch_convergence_wait_seconds',
      'How long the change that waits longest has waited to be true; 0: none waits.',
    ),
  };
}
