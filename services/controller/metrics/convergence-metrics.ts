import { Histogram, type Registry } from 'prom-client';
import { sampled } from '#core/platform/telemetry/sampled-metrics.ts';

/** From a pass at once to an outage; a minute is the objective. */
const CONVERGENCE_SECONDS = [0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600];

/** How soon what resources say is true. What never becomes true is seen in the wait alone. */
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
