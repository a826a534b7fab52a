import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

export type ControllerMetricsOptions = {
  /** Names of the controllers, one work queue each. */
  readonly controllers: readonly string[];
  /** Condition types by kind of resource. The kinds are those that are watched. */
  readonly conditions: Readonly<Record<string, readonly string[]>>;
  /** Names the election in `leader_election_master_status`. */
  readonly leaseName: string;
};

/** How a reconcile ended: `requeue_after` asked to be called again, `error` was thrown or terminal. */
export const RECONCILE_RESULTS = ['success', 'requeue_after', 'error'] as const;
export type ReconcileOutcome = (typeof RECONCILE_RESULTS)[number];

/** Why a watch was opened anew: its time was over, its version was too old, nothing came for too long, a fault. */
export const WATCH_RESTART_REASONS = ['ended', 'expired', 'stalled', 'error'] as const;
export type WatchRestartReason = (typeof WATCH_RESTART_REASONS)[number];

const CONDITION_STATUSES = ['True', 'False', 'Unknown'] as const;

/** Codes that a first occurrence of must be seen by `rate()`; others begin when they come. */
const REST_CODES: Readonly<Record<string, readonly string[]>> = {
  GET: ['200', '404', '410'],
  POST: ['201', '409'],
  PUT: ['200', '409'],
  PATCH: ['200', '201', '404', '409', '422'],
  DELETE: ['200', '404', '409'],
};
const REST_FAULT_CODES = ['401', '403', '429', '500', '503', '504', '<error>'];

/** A pass over one object: from one without a change to one that waits for Vault and the database. */
const RECONCILE_SECONDS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];
/** A key's wait: from none to the longest back-off. */
const QUEUE_SECONDS = [0.000_1, 0.001, 0.01, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1_000];

/** What a work queue is asked for at a scrape, in seconds. */
export type RunningWork = { readonly unfinished: number; readonly longest: number };

/** The part of a resource that is counted. */
export type WithConditions = {
  readonly status?:
    | { readonly conditions?: readonly { readonly type: string; readonly status: string }[] | undefined }
    | undefined;
};

/**
 * What a controller says of its queues, watches and reconciles. The names and labels are those of controller-runtime and
 * client-go, so that dashboards and alerts made for them fit. Every series begins at 0.
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

function reconcileMetrics(registry: Registry, controllers: readonly string[]) {
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
    help: 'Reconciles that failed, terminal failures included.',
    labelNames,
    registers: on,
  });
  const terminalErrors = new Counter({
    name: 'controller_runtime_terminal_reconcile_errors_total',
    help: 'Reconciles that failed in a way that trying again does not help.',
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
    terminalErrors.inc({ controller }, 0);
    seconds.zero({ controller });
    activeWorkers.set({ controller }, 0);
    workersMax.set({ controller }, 0);
  }
  return {
    concurrency: (controller: string, workers: number): void => workersMax.set({ controller }, workers),
    started: (controller: string): void => activeWorkers.inc({ controller }),
    finished(
      controller: string,
      end: { readonly result: ReconcileOutcome; readonly isTerminal: boolean; readonly seconds: number },
    ): void {
      activeWorkers.dec({ controller });
      total.inc({ controller, result: end.result });
      seconds.observe({ controller }, end.seconds);
      if (end.result === 'error') errors.inc({ controller });
      if (end.isTerminal) terminalErrors.inc({ controller });
    },
  };
}

function workqueueMetrics(registry: Registry, names: readonly string[]) {
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

function restMetrics(registry: Registry) {
  const requests = new Counter({
    name: 'rest_client_requests_total',
    help: 'Requests to the Kubernetes API by HTTP status, <error> for those without an answer.',
    labelNames: ['code', 'method'],
    registers: [registry],
  });
  for (const [method, codes] of Object.entries(REST_CODES)) {
    for (const code of [...codes, ...REST_FAULT_CODES]) requests.inc({ code, method }, 0);
  }
  return ({ code, method }: { readonly code: string; readonly method: string }): void =>
    requests.inc({ code, method });
}

function resourceMetrics(registry: Registry, conditions: ControllerMetricsOptions['conditions']) {
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
            // A type nobody declared came from another writer and would be a series without bound.
            if (conditions[kind]?.includes(type)) condition.inc({ kind, type, status: bounded(status) });
          }
        }
      }
    },
  });
  const driftRepairs = new Counter({
    name: 'despatch_drift_repairs_total',
    help: 'Fields of ours that someone else had changed and that were set right.',
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
    /** Counted at each scrape, so what is given must be cheap to walk: a cache. */
    resourceConditions: {
      from: (kind: string, read: () => Iterable<WithConditions>): void => void sources.set(kind, read),
    },
    driftRepaired: (kind: string): void => driftRepairs.inc({ kind }),
    watchRestarted: (kind: string, reason: WatchRestartReason): void => restarts.inc({ kind, reason }),
    watchContact: (kind: string, epochSeconds: number): void => lastEvent.set({ kind }, epochSeconds),
    relisted: (kind: string): void => relists.inc({ kind }),
  };
}

function bounded(status: string): string {
  return status === 'True' || status === 'False' ? status : 'Unknown';
}
