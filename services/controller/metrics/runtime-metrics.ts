import { Gauge, type Registry } from 'prom-client';
import { reconcileMetrics } from './reconcile-metrics.ts';
import { resourceMetrics } from './resource-metrics.ts';
import { restMetrics } from './rest-metrics.ts';
import { workqueueMetrics } from './workqueue-metrics.ts';

export type ControllerMetricsOptions = {
  /** Names of the controllers; each has one work queue. */
  readonly controllers: readonly string[];
  /** Condition types by kind of resource. The kinds are those that are watched. */
  readonly conditions: Readonly<Record<string, readonly string[]>>;
  /** The election's name in `leader_election_master_status`. */
  readonly leaseName: string;
};

/**
 * Metrics of a controller's queues, watches and reconciles. Names and labels are those of controller-runtime and client-go,
 * so that existing dashboards and alerts work. Every series starts at 0.
 */
export function controllerRuntimeMetrics(registry: Registry, options: ControllerMetricsOptions) {
  const on = [registry];
  const election = new Gauge({
    name: 'leader_election_master_status',
    help: '1 while this process leads.',
    labelNames: ['name'],
    registers: on,
  });
  election.set({ name: options.leaseName }, 0);
  return {
    reconciles: reconcileMetrics(registry, options.controllers),
    workqueue: workqueueMetrics(registry, options.controllers),
    leads: (isLeader: boolean): void => election.set({ name: options.leaseName }, isLeader ? 1 : 0),
    restRequest: restMetrics(registry),
    ...resourceMetrics(registry, options.conditions),
  };
}
