import { Counter, Gauge, Histogram } from 'prom-client';
import { BRAKE_LEVELS, type BrakeLevel } from '#core/domain/tenant/brake.ts';
import { CHANNELS, type Channel } from '#core/domain/message/channel.ts';
import { createBaseMetrics, SECONDS } from './base-metrics.ts';
import { createDatabaseMetrics } from './database-metrics.ts';
import { sampled, sampledSeries } from './sampled-metrics.ts';
import { tenantCounters, type TenantMetricsOptions } from './tenant-metrics.ts';
import {
  AWAITED_OUTCOMES,
  GIVEN_UP_REASONS,
  LOOKUP_RESULTS,
  METRIC_OUTCOMES,
  RECEIPT_RESULTS,
  WEBHOOK_RESULTS,
  type AwaitedOutcome,
  type FailoverLabels,
  type GivenUpReason,
  type LookupOutcome,
  type MetricReceiptResult,
  type WebhookResult,
} from './worker-labels.ts';

/** From an immediate first attempt to a retry schedule of a day. */
const DELIVERY_SECONDS = [
  0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200, 28_800, 86_400,
];

const CIRCUIT_STATES = ['open', 'probing'] as const;

export type WorkerMetricsOptions = TenantMetricsOptions & {
  /** The providers of the catalog with their channels; their series start at 0. */
  readonly providers?: readonly {
    readonly id: string;
    readonly channel: Channel;
    /** The provider's lookup, if it has one. */
    readonly lookup?: unknown;
  }[];
};

type AttemptLabels = {
  readonly channel: Channel;
  readonly provider: string;
  readonly outcome: (typeof METRIC_OUTCOMES)[number];
  readonly tenantId: string;
};

export function createWorkerMetrics({ providers = [], tenantsMax = 0 }: WorkerMetricsOptions = {}) {
  const { registry, ...base } = createBaseMetrics(['decrypt']);
  const on = [registry];
  const attempts = new Counter({
    name: 'despatch_delivery_attempts_total',
    help: 'Attempts by their outcome.',
    labelNames: ['channel', 'provider', 'outcome'],
    registers: on,
  });
  // There are many pairs and few occur, so their series start when they do.
  const failovers = new Counter({
    name: 'despatch_failovers_total',
    help: 'Messages that went on to another account, by the provider that they left, the one that they went to and why: the class of the failure where a call was refused, receipt_timeout where no report came in time, or why the account that they waited for was not called (breaker_open, rate_used_up, invalid, disabled).',
    labelNames: ['channel', 'provider', 'to', 'class'],
    registers: on,
  });
  const suppressed = new Counter({
    name: 'despatch_messages_suppressed_total',
    help: 'Messages that ended without a call, as their recipient is on a suppression list.',
    labelNames: ['channel'],
    registers: on,
  });
  const providerSeconds = new Histogram({
    name: 'despatch_provider_request_duration_seconds',
    help: 'Time of a provider call.',
    labelNames: ['provider'],
    buckets: SECONDS,
    registers: on,
  });
  const unreached = new Counter({
    name: 'despatch_provider_unreached_total',
    help: 'Provider calls that no server answered: no address, no connection, no TLS, or no answer in time.',
    labelNames: ['provider'],
    registers: on,
  });
  const endToEndSeconds = new Histogram({
    name: 'despatch_message_end_to_end_seconds',
    help: 'Time from the 202, or from the time that a message was scheduled for, to the end of our part.',
    labelNames: ['channel'],
    buckets: DELIVERY_SECONDS,
    registers: on,
  });
  const receipts = new Counter({
    name: 'despatch_receipts_total',
    help: 'Receipts of providers, by result.',
    labelNames: ['provider', 'result'],
    registers: on,
  });
  const awaited = new Counter({
    name: 'despatch_receipts_awaited_total',
    help: 'Messages that waited for their final report, by whether a report arrived; a late report counts in both.',
    labelNames: ['provider', 'outcome'],
    registers: on,
  });
  const lookups = new Counter({
    name: 'despatch_lookups_total',
    help: 'Questions to providers about messages whose receipts have not arrived, by result.',
    labelNames: ['provider', 'result'],
    registers: on,
  });
  for (const { id, channel, lookup } of providers) {
    if (lookup !== undefined) for (const result of LOOKUP_RESULTS) lookups.inc({ provider: id, result }, 0);
    for (const result of RECEIPT_RESULTS) receipts.inc({ provider: id, result }, 0);
    for (const outcome of AWAITED_OUTCOMES) awaited.inc({ provider: id, outcome }, 0);
    for (const outcome of METRIC_OUTCOMES) attempts.inc({ channel, provider: id, outcome }, 0);
    providerSeconds.zero({ provider: id });
    unreached.inc({ provider: id }, 0);
  }
  for (const channel of CHANNELS) {
    endToEndSeconds.zero({ channel });
    suppressed.inc({ channel }, 0);
  }
  const webhookCalls = new Counter({
    name: 'despatch_webhook_deliveries_total',
    help: 'Calls to webhook endpoints, by result; `exhausted` is the last call for an event that the endpoint never accepted.',
    labelNames: ['result'],
    registers: on,
  });
  for (const result of WEBHOOK_RESULTS) webhookCalls.inc({ result }, 0);
  const webhookSeconds = new Histogram({
    name: 'despatch_webhook_delivery_seconds',
    help: 'Time from an event to the first call of an endpoint that took it.',
    buckets: DELIVERY_SECONDS,
    registers: on,
  });
  const givenUp = new Counter({
    name: 'despatch_dead_letters_total',
    help: 'Messages that a worker gave up, by the reason: after a call, or as `expired` and `no_route` without another.',
    labelNames: ['reason'],
    registers: on,
  });
  for (const reason of GIVEN_UP_REASONS) givenUp.inc({ reason }, 0);
  const brakes = new Counter({
    name: 'despatch_brakes_applied_total',
    help: 'Channels of tenants that were slowed or held, as too many of their messages bounced or too many recipients complained.',
    labelNames: ['level'],
    registers: on,
  });
  for (const level of BRAKE_LEVELS) brakes.inc({ level }, 0);
  const taskSuccess = new Gauge({
    name: 'despatch_task_last_success_timestamp_seconds',
    help: 'When a task that repeats, such as the sweep or the upkeep of partitions, last did all that there was to do, or a full batch of it; the start of its process until then.',
    labelNames: ['task'],
    registers: on,
  });
  const taskFailures = new Counter({
    name: 'despatch_task_failures_total',
    help: 'Runs of a task that failed, or parts of one.',
    labelNames: ['task'],
    registers: on,
  });
  const tenants = tenantCounters(registry, tenantsMax, {
    attempted: {
      name: 'despatch_tenant_attempts_total',
      help: 'Attempts by their outcome, by tenant.',
      label: { name: 'outcome', words: METRIC_OUTCOMES },
    },
  });
  return {
    ...base,
    ...createDatabaseMetrics(registry),
    registry,
    attempted(message: AttemptLabels): void {
      const { channel, provider, outcome } = message;
      attempts.inc({ channel, provider, outcome });
      tenants.attempted(message.tenantId, outcome);
    },
    /** A provider call that took this long; `isAnswered`: whether a server answered it, if only with an error. */
    called(provider: string, seconds: number, isAnswered: boolean): void {
      providerSeconds.observe({ provider }, seconds);
      if (!isAnswered) unreached.inc({ provider });
    },
    givenUp: (reason: GivenUpReason): void => givenUp.inc({ reason }),
    failedOver: ({ channel, provider, to, because }: FailoverLabels): void =>
      failovers.inc({ channel, provider, to, class: because }),
    suppressed: (channel: Channel): void => suppressed.inc({ channel }),
    brakeApplied: (level: BrakeLevel): void => brakes.inc({ level }),
    receipt: (provider: string, result: MetricReceiptResult): void => receipts.inc({ provider, result }),
    awaited: (provider: string, outcome: AwaitedOutcome, messages = 1): void =>
      awaited.inc({ provider, outcome }, messages),
    lookedUp: (provider: string, result: LookupOutcome): void => lookups.inc({ provider, result }),
    /** @param seconds since the event; null if this is not the first call or it failed. */
    webhookCalled(result: WebhookResult, seconds: number | null): void {
      webhookCalls.inc({ result });
      if (seconds !== null) webhookSeconds.observe(seconds);
    },
    webhooksInFlight: sampled(
      registry,
      'despatch_webhook_calls_in_flight',
      'Calls to webhook endpoints that are under way in this process.',
    ),
    endToEndSeconds,
    circuitState: sampledSeries(
      registry,
      {
        name: 'despatch_circuit_state',
        help: 'Provider accounts whose breaker is in this state, and for which messages have waited in the last five minutes.',
        labelNames: ['provider', 'state'],
      },
      providers.flatMap(({ id }) => CIRCUIT_STATES.map((state) => ({ provider: id, state }))),
    ),
    firstAttemptSeconds: new Histogram({
      name: 'despatch_time_to_first_attempt_seconds',
      help: 'Time from the 202, from the time that a message was scheduled for, or from its release where it was held, to the first provider call. Time behind an open breaker does not count, nor do messages of channels that an abuse brake slows or of accounts with a rate limit.',
      buckets: DELIVERY_SECONDS,
      registers: on,
    }),
    inFlight: sampled(registry, 'despatch_worker_in_flight', 'Claimed messages in this process.'),
    oldestScheduled: sampled(
      registry,
      'despatch_scheduled_oldest_overdue_seconds',
      'Seconds by which the oldest due scheduled message is late; 0 if none.',
    ),
    oldestDue: sampled(
      registry,
      'despatch_oldest_due_seconds',
      "For how long the message that waits longest could have been sent. What waits for its provider to recover, for its account's rate limit or credentials, or in a channel that an abuse brake slows, does not count.",
    ),
    eventsNumbered: new Counter({
      name: 'despatch_events_numbered_total',
      help: "Events that were given their number in a tenant's feed.",
      registers: on,
    }),
    /** Starts a task's series, so that a task that never succeeds is visible too. */
    taskBegun(task: string, epochSeconds: number): void {
      taskSuccess.set({ task }, epochSeconds);
      taskFailures.inc({ task }, 0);
    },
    taskSucceeded: (task: string, epochSeconds: number): void => taskSuccess.set({ task }, epochSeconds),
    taskFailed: (task: string): void => taskFailures.inc({ task }),
    wakeupsReceived: new Counter({
      name: 'despatch_wakeups_received_total',
      help: 'Wake-ups that JetStream delivered to this process.',
      registers: on,
    }),
    consumerPending: sampled(registry, 'despatch_consumer_pending', 'Wake-ups that no worker has.'),
    credentialsAutonomy: sampled(
      registry,
      'despatch_credentials_autonomy_seconds',
      'For how long the provider accounts in use can go on without Vault.',
    ),
  };
}

export type WorkerMetrics = ReturnType<typeof createWorkerMetrics>;
