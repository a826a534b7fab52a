import { Gauge, collectDefaultMetrics, type Registry } from 'prom-client';

/** Adds the process's own metrics, such as event-loop lag, and the build's version. */
export function collectProcessMetrics(
  metrics: { readonly registry: Registry },
  build: { readonly component: 'api' | 'worker' | 'controller'; readonly version: string },
): void {
  collectDefaultMetrics({ register: metrics.registry });
  // Drops the sums of gauges that exist by type as well: Prometheus reserves their `_total` names for counters.
  for (const kind of ['handles', 'requests', 'resources']) {
    metrics.registry.removeSingleMetric(`nodejs_active_${kind}_total`);
  }
  new Gauge({
    name: 'despatch_build_info',
    help: 'Always 1; the labels name the build.',
    // `component` tells these processes from other controllers, whose metrics have the same names.
    labelNames: ['component', 'version', 'node'],
    registers: [metrics.registry],
  }).set({ component: build.component, version: build.version, node: process.version }, 1);
}
