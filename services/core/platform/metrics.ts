import { Counter, Gauge, Histogram, Registry, collectDefaultMetrics } from 'prom-client';
import { CHANNELS, type Channel } from '#core/domain/channel.ts';
import { controllerRuntimeMetrics, type ControllerMetricsOptions } from './controller-metrics.ts';
import type { VaultRequest } from './vault.ts';

/** What a scrape gets. */
export type Exposition = { readonly contentType: string; readonly text: string };

/** A gauge whose value is asked for at each scrape; null or a failure shows nothing. */
export type Sampled = { readonly from: (read: () => number | null | Promise<number | null>) => void };

/** The same for counts by state. */
export type SampledStates = {
  readonly from: (read: () => Promise<Readonly<Record<string, number>>>) => void;
};

/** Provider calls and accept batches share it: a millisecond to the longest provider deadline. */
const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30];
/** From a first attempt at once to a retry schedule of a day. */
const DELIVERY_SECONDS = [
  0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200, 28_800, 86_400,
];

export const REJECTION_REASONS = ['quota', 'rate', 'validation', 'suspended', 'dependency'] as const;
export type RejectionReason = (typeof REJECTION_REASONS)[number];

/** The outcomes of an attempt; a test keeps them equal to those of the domain. */
export const ATTEMPT_OUTCOMES = [
  'accepted',
  'rejected_permanent',
  'rejected_transient',
  'ambiguous',
  'not_started',
] as const;

export type MetricsOptions = {
  /** Ids of the catalog with their channel, whose series begin at 0. */
  readonly providers?: readonly { readonly id: string; readonly channel: Channel }[];
};

/**
 * What every deployment says of itself and of what it depends on. Labels are bounded words: never a tenant, a recipient
 * or an id.
 */
function createBaseMetrics() {
  const registry = new Registry();
  const on = [registry];
  const vaultRequests = new Counter({
    name: 'despatch_vault_requests_total',
    help: 'Calls to Vault by operation and HTTP status, or the reason for having none.',
    labelNames: ['op', 'code'],
    registers: on,
  });
  const vaultSeconds = new Histogram({
    name: 'despatch_vault_request_duration_seconds',
    help: 'Time of a call to Vault.',
    labelNames: ['op'],
    buckets: SECONDS,
    registers: on,
  });
  const vaultTokenExpiry = new Gauge({
    name: 'despatch_vault_token_expiry_timestamp_seconds',
    help: 'When the Vault token ends unless it is renewed.',
    registers: on,
  });
  const natsConnected = new Gauge({
    name: 'despatch_nats_connected',
    help: '1 while connected to NATS.',
    registers: on,
  });
  return {
    registry,
    vaultRequest({ op, code, seconds }: VaultRequest): void {
      vaultRequests.inc({ op, code });
      vaultSeconds.observe({ op }, seconds);
    },
    vaultTokenExpires: (epochSeconds: number): void => vaultTokenExpiry.set(epochSeconds),
    natsConnection: (isConnected: boolean): void => natsConnected.set(isConnected ? 1 : 0),
    databaseSeconds: new Histogram({
      name: 'despatch_db_query_duration_seconds',
      help: 'Time of a database operation, the wait for a connection included.',
      labelNames: ['op'],
      buckets: SECONDS,
      registers: on,
    }),
    databaseErrors: new Counter({
      name: 'despatch_db_errors_total',
      help: 'Database operations that failed.',
      labelNames: ['op'],
      registers: on,
    }),
    poolConnections: sampledStates(
      registry,
      'despatch_db_pool_connections',
      "This process's database connections by state, as the server sees them.",
    ),
    publishSeconds: new Histogram({
      name: 'despatch_publish_duration_seconds',
      help: 'Time until JetStream acknowledged a batch of wake-ups.',
      buckets: SECONDS,
      registers: on,
    }),
    publishErrors: new Counter({
      name: 'despatch_publish_errors_total',
      help: 'Wake-ups without an acknowledgement; the sweep finds their messages.',
      registers: on,
    }),
    expose: async (): Promise<Exposition> => ({
      contentType: registry.contentType,
      text: await registry.metrics(),
    }),
  };
}

export function createApiMetrics() {
  const { registry, ...base } = createBaseMetrics();
  const on = [registry];
  const requests = new Counter({
    name: 'despatch_http_requests_total',
    help: 'Requests answered, by route pattern.',
    labelNames: ['method', 'route', 'code'],
    registers: on,
  });
  const seconds = new Histogram({
    name: 'despatch_http_request_duration_seconds',
    help: 'Time from the request line to the last byte of the answer.',
    labelNames: ['route'],
    buckets: SECONDS,
    registers: on,
  });
  const inFlight = new Gauge({
    name: 'despatch_http_requests_in_flight',
    help: 'Requests not answered yet.',
    registers: on,
  });
  const accepted = new Counter({
    name: 'despatch_messages_accepted_total',
    help: 'Messages that were stored and answered with 202.',
    labelNames: ['channel'],
    registers: on,
  });
  const rejected = new Counter({
    name: 'despatch_messages_rejected_total',
    help: 'Messages that were refused.',
    labelNames: ['reason'],
    registers: on,
  });
  for (const channel of CHANNELS) accepted.inc({ channel }, 0);
  for (const reason of REJECTION_REASONS) rejected.inc({ reason }, 0);
  return {
    ...base,
    registry,
    requestStarted: (): void => inFlight.inc(),
    requestFinished(request: { method: string; route: string; statusCode: number; seconds: number }): void {
      inFlight.dec();
      requests.inc({ method: request.method, route: request.route, code: String(request.statusCode) });
      seconds.observe({ route: request.route }, request.seconds);
    },
    accepted: (channel: Channel): void => accepted.inc({ channel }),
    rejected: (reason: RejectionReason): void => rejected.inc({ reason }),
    idempotencyReplays: new Counter({
      name: 'despatch_idempotency_replays_total',
      help: 'Requests answered from a stored answer.',
      registers: on,
    }),
  };
}

export type ApiMetrics = ReturnType<typeof createApiMetrics>;

export function createWorkerMetrics({ providers = [] }: MetricsOptions = {}) {
  const { registry, ...base } = createBaseMetrics();
  const on = [registry];
  const attempts = new Counter({
    name: 'despatch_delivery_attempts_total',
    help: 'Attempts by their outcome.',
    labelNames: ['channel', 'provider', 'outcome'],
    registers: on,
  });
  const providerSeconds = new Histogram({
    name: 'despatch_provider_request_duration_seconds',
    help: 'Time of a provider call.',
    labelNames: ['provider'],
    buckets: SECONDS,
    registers: on,
  });
  const endToEndSeconds = new Histogram({
    name: 'despatch_message_end_to_end_seconds',
    help: 'Time from the 202 to the end of our part.',
    labelNames: ['channel'],
    buckets: DELIVERY_SECONDS,
    registers: on,
  });
  const circuitState = new Gauge({
    name: 'despatch_circuit_state',
    help: 'Provider accounts whose breaker is in this state.',
    labelNames: ['provider', 'state'],
    registers: on,
  });
  for (const { id, channel } of providers) {
    for (const outcome of ATTEMPT_OUTCOMES) attempts.inc({ channel, provider: id, outcome }, 0);
    for (const state of ['open', 'probing']) circuitState.set({ provider: id, state }, 0);
    providerSeconds.zero({ provider: id });
  }
  for (const channel of CHANNELS) endToEndSeconds.zero({ channel });
  return {
    ...base,
    registry,
    attempts,
    providerSeconds,
    endToEndSeconds,
    circuitState,
    firstAttemptSeconds: new Histogram({
      name: 'despatch_time_to_first_attempt_seconds',
      help: 'Time from the 202 to the first provider call.',
      buckets: DELIVERY_SECONDS,
      registers: on,
    }),
    consumerRedeliveries: new Counter({
      name: 'despatch_consumer_redeliveries_total',
      help: 'Wake-ups that came again without an acknowledgement.',
      registers: on,
    }),
    inFlight: sampled(registry, 'despatch_worker_in_flight', 'Claimed messages in this process.'),
    backlog: sampled(
      registry,
      'despatch_backlog_messages',
      'Messages accepted and not finished, of all tenants; every worker shows the same.',
    ),
    consumerPending: sampled(registry, 'despatch_consumer_pending', 'Wake-ups that no worker has.'),
    consumerAckPending: sampled(registry, 'despatch_consumer_ack_pending', 'Wake-ups that workers hold.'),
    credentialsAutonomy: sampled(
      registry,
      'despatch_credentials_autonomy_seconds',
      'For how long the provider accounts in use can go on without Vault.',
    ),
  };
}

export type WorkerMetrics = ReturnType<typeof createWorkerMetrics>;

export function createControllerMetrics(options: ControllerMetricsOptions) {
  const { registry, ...base } = createBaseMetrics();
  return { ...base, registry, ...controllerRuntimeMetrics(registry, options) };
}

export type ControllerMetrics = ReturnType<typeof createControllerMetrics>;

/** Adds the process's own metrics, event-loop lag among them, and which build runs. */
export function collectProcessMetrics(
  metrics: { readonly registry: Registry },
  build: { readonly version: string },
): void {
  collectDefaultMetrics({ register: metrics.registry });
  new Gauge({
    name: 'despatch_build_info',
    help: 'Always 1; the labels name the build.',
    labelNames: ['version', 'node'],
    registers: [metrics.registry],
  }).set({ version: build.version, node: process.version }, 1);
}

/** A gauge with a series for each state that is there at a scrape. */
function sampledStates(registry: Registry, name: string, help: string): SampledStates {
  let read: () => Promise<Readonly<Record<string, number>>> = () => Promise.resolve({});
  const gauge: Gauge<'state'> = new Gauge({
    name,
    help,
    labelNames: ['state'],
    registers: [registry],
    async collect() {
      const states = await read().catch(() => ({}));
      gauge.reset();
      for (const [state, count] of Object.entries(states)) gauge.set({ state }, count);
    },
  });
  return {
    from(source) {
      read = source;
    },
  };
}

function sampled(registry: Registry, name: string, help: string): Sampled {
  let read: () => number | null | Promise<number | null> = () => null;
  const gauge: Gauge = new Gauge({
    name,
    help,
    registers: [registry],
    async collect() {
      const value = await Promise.resolve()
        .then(read)
        .catch(() => null);
      if (value === null) gauge.remove();
      else gauge.set(value);
    },
  });
  return {
    from(source) {
      read = source;
    },
  };
}
