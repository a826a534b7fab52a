import { Counter, Gauge, type Registry } from 'prom-client';
import { sampled } from '#core/platform/telemetry/sampled-metrics.ts';

/** Why a watch was restarted: it reached its time limit, its version expired, it was silent for too long, or it failed. */
const WATCH_RESTART_REASONS = ['ended', 'expired', 'stalled', 'error'] as const;
type WatchRestartReason = (typeof WATCH_RESTART_REASONS)[number];

const CONDITION_STATUSES = ['True', 'False', 'Unknown'] as const;

/** The fields of a resource that the metrics use. */
type WithConditions = {
  readonly status?:
    | { readonly conditions?: readonly { readonly type: string; readonly status: string }[] | undefined }
    | undefined;
};

/** Condition types by kind. */
type Conditions = Readonly<Record<string, readonly string[]>>;

export function resourceMetrics(registry: Registry, conditions: Conditions) {
  const on = [registry];
  const kinds = Object.keys(conditions);
  const sources = new Map<string, () => Iterable<WithConditions>>();
  const condition: Gauge<'kind' | 'type' | 'status'> = new Gauge({
    name: 'despatch_resource_condition',
    help: 'Resources by kind whose condition of this type has this status.',
    labelNames: ['kind', 'type', 'status'],
    registers: on,
    collect() {
      for (const kind of kinds) {
        for (const type of conditions[kind] ?? []) {
          for (const status of CONDITION_STATUSES) condition.set({ kind, type, status }, 0);
        }
        for (const { status: { conditions: held = [] } = {} } of sources.get(kind)?.() ?? []) {
          for (const { type, status } of held) {
            // An undeclared type was written by someone else and would make the number of series unbounded.
            if (conditions[kind]?.includes(type)) condition.inc({ kind, type, status: bounded(status) });
          }
        }
      }
    },
  });
  const driftRepairs = new Counter({
    name: 'despatch_drift_repairs_total',
    help: 'External changes of our fields that were reverted.',
    labelNames: ['kind'],
    registers: on,
  });
  const restarts = new Counter({
    name: 'despatch_watch_restarts_total',
    help: 'Watches that were opened anew, by the reason for the end of the one before.',
    labelNames: ['kind', 'reason'],
    registers: on,
  });
  const lastEvent = new Gauge({
    name: 'despatch_watch_last_event_timestamp_seconds',
    help: 'When the API server last said anything of this kind: an event, a bookmark or a list. 0: never.',
    labelNames: ['kind'],
    registers: on,
  });
  const relists = new Counter({
    name: 'despatch_relist_total',
    help: 'Full lists after the first one.',
    labelNames: ['kind'],
    registers: on,
  });
  for (const kind of kinds) {
    driftRepairs.inc({ kind }, 0);
    for (const reason of WATCH_RESTART_REASONS) restarts.inc({ kind, reason }, 0);
    lastEvent.set({ kind }, 0);
    relists.inc({ kind }, 0);
  }
  return {
    /** Counted at each scrape, so the given iterable must be cheap to walk: a cache. */
    resourceConditions: {
      from: (kind: string, read: () => Iterable<WithConditions>): void => void sources.set(kind, read),
    },
    oldestDeletion: sampled(
      registry,
      'despatch_resource_deletion_oldest_seconds',
      'For how long the Tenant that was deleted first has been kept by our finalizer; 0: none is. Every replica shows the same.',
    ),
    driftRepaired: (kind: string): void => driftRepairs.inc({ kind }),
    watchRestarted: (kind: string, reason: WatchRestartReason): void => restarts.inc({ kind, reason }),
    watchContact: (kind: string, epochSeconds: number): void => lastEvent.set({ kind }, epochSeconds),
    relisted: (kind: string): void => relists.inc({ kind }),
  };
}

function bounded(status: string): string {
  return status === 'True' || status === 'False' ? status : 'Unknown';
}
