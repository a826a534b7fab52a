import { Counter, Gauge, Histogram } from 'prom-client';
import { BRAKE_LEVELS, type BrakeLevel } from '#core/domain/tenant/brake.ts';
import { CHANNELS, type Channel } from '#core/domain/message/channel.ts';
import { ENDPOINT_STATUSES } from '#core/domain/webhooks/endpoint-state.ts';
import { ADAPTER_FAULT, FAILURE_CLASSES, type FailureClass } from '#core/domain/sending/failure.ts';
import { PARTITION_TASKS } from '#core/domain/storage/partition-task.ts';
import type { LeftReason } from '#core/domain/routing/skipped-account.ts';
import { createBaseMetrics, SECONDS } from './base-metrics.ts';
import { sampled, sampledSeries } from './sampled-metrics.ts';
import { tenantCounters, type TenantMetricsOptions } from './tenant-metrics.ts';

/** From an immediate first attempt to a retry schedule of a day. */
const DELIVERY_SECONDS = [
  0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800, 7_200, 28_800, 86_400,
];

/** The outcomes of an attempt; a test keeps them equal to those of the domain. */
export const METRIC_OUTCOMES = [
  'accepted',
  'rejected_permanent',
  'rejected_transient',
  'ambiguous',
  'not_started',
] as const;

const CIRCUIT_STATES = ['open', 'probing'] as const;

/**
 * Why a message was given up. A failure class names the cause; `no_answer`: the last call got no answer, so the result is
 * unknown; `worker_lost` and `adapter_fault` are Despatch's own faults.
 */
export const GIVEN_UP_REASONS = [...FAILURE_CLASSES, 'no_answer', 'worker_lost', ADAPTER_FAULT] as const;
export type GivenUpReason = (typeof GIVEN_UP_REASONS)[number];

/** How the wait for a message's result ended: a report arrived, a lookup found it, or neither happened before the wait ended. */
const AWAITED_OUTCOMES = ['heard', 'asked', 'silent'] as const;
export type AwaitedOutcome = (typeof AWAITED_OUTCOMES)[number];

/**
 * Results of receipts. `applied`: it changed the message; `unapplied`: it contained nothing new, or nothing credible any more;
 * `repeated`; `orphan`: it matches no message; `full`: it matches no message yet, and too many receipts of its account are
 * waiting; `forged`: not authentic; `unreadable`: not in the vendor's format.
 * `asked`: any answer to a lookup; all others are reports that the vendor sent by itself.
 */
export const RECEIPT_RESULTS = [
  'applied',
  'unapplied',
  'repeated',
  'orphan',
  'full',
  'asked',
  'forged',
  'unreadable',
] as const;
export type MetricReceiptResult = (typeof RECEIPT_RESULTS)[number];

/**
 * Results of lookups. `final`: the message's outcome; `pending`: it is still under way, or the provider does not tell;
 * `not_found`: the provider does not know it; `unanswerable`: it cannot be looked up; `forbidden`: the account's key may not look
 * it up; `unanswered`: no answer.
 */
export const LOOKUP_RESULTS = [
  'final',
  'pending',
  'not_found',
  'unanswerable',
  'forbidden',
  'unanswered',
] as const;
export type LookupOutcome = (typeof LOOKUP_RESULTS)[number];

/** Results of a call to a webhook endpoint; `exhausted`: the last call for its event failed. */
export const WEBHOOK_RESULTS = ['succeeded', 'failed', 'exhausted'] as const;
export type WebhookResult = (typeof WEBHOOK_RESULTS)[number];

export type WorkerMetricsOptions = TenantMetricsOptions & {
  /** The providers of the catalog with their channels; their series start at 0. */
  readonly providers?: readonly {
    readonly id: string;
    readonly channel: Channel;
    /** The provider's lookup, if it has one. */
    readonly lookup?: unknown;
  }[];
};

/** The labels of a message's move from one account to another. */
export type FailoverLabels = {
  readonly channel: Channel;
  /** Provider of the account that the message leaves, an id of the catalog. */
  readonly provider: string;
  /** Provider of the next account; `unknown` if that account can no longer be used. */
  readonly to: string;
  /** The failure of the call; a receipt timeout; or why the account was not called. */
  readonly because: FailureClass | 'receipt_timeout' | LeftReason;
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
    webhooksOldestUnmatched: sampled(
      registry,
      'despatch_webhook_oldest_unmatched_seconds',
      'For how long the oldest event that has its number has waited to be matched with the webhook endpoints of its tenant; every worker shows the same.',
    ),
    webhooksOldestDue: sampled(
      registry,
      'despatch_webhook_oldest_due_seconds',
      'For how long the oldest delivery has waited that a worker should have taken; what its endpoint holds back does not count. Every worker shows the same.',
    ),
    webhookEndpoints: sampledSeries(
      registry,
      {
        name: 'despatch_webhook_endpoints',
        help: 'Webhook endpoints of all tenants that are in this state; every worker shows the same.',
        labelNames: ['status'],
      },
      ENDPOINT_STATUSES.map((status) => ({ status })),
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
    backlog: sampled(
      registry,
      'despatch_backlog_messages',
      'Messages accepted and not finished, of all tenants but suspended ones, without those that are scheduled or wait behind a brake; every worker shows the same.',
    ),
    braked: sampled(
      registry,
      'despatch_braked_messages',
      'Messages of channels that an abuse brake slows or holds, accepted and not finished, of all tenants but suspended ones; every worker shows the same.',
    ),
    brakedChannels: sampledSeries(
      registry,
      {
        name: 'despatch_braked_channels',
        help: 'Channels of tenants that an abuse brake slows or holds now, of all tenants but suspended ones; every worker shows the same.',
        labelNames: ['level'],
      },
      BRAKE_LEVELS.map((level) => ({ level })),
    ),
    scheduled: sampled(
      registry,
      'despatch_scheduled_messages',
      'Messages that wait for the time that their sender named, of all tenants but suspended ones; every worker shows the same.',
    ),
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
    oldestReceipt: sampled(
      registry,
      'despatch_receipts_oldest_seconds',
      'For how long the oldest call of a vendor has waited to be read, or the oldest receipt to be applied; every worker shows the same. Calls that wait for usable settings of their account do not count.',
    ),
    eventsNumbered: new Counter({
      name: 'despatch_events_numbered_total',
      help: "Events that were given their number in a tenant's feed.",
      registers: on,
    }),
    oldestChange: sampled(
      registry,
      'despatch_events_oldest_seconds',
      "For how long the oldest event has waited for its number in its tenant's feed; every worker shows the same.",
    ),
    oldestUsage: sampled(
      registry,
      'despatch_usage_oldest_seconds',
      'For how long the oldest move of messages has waited to be counted as usage; every worker shows the same.',
    ),
    /** Starts a task's series, so that a task that never succeeds is visible too. */
    taskBegun(task: string, epochSeconds: number): void {
      taskSuccess.set({ task }, epochSeconds);
      taskFailures.inc({ task }, 0);
    },
    taskSucceeded: (task: string, epochSeconds: number): void => taskSuccess.set({ task }, epochSeconds),
    taskFailed: (task: string): void => taskFailures.inc({ task }),
    partitionsDue: sampledSeries(
      registry,
      {
        name: 'despatch_partitions_due',
        help: 'Partitions that are to be made or dropped; `blocked` while rows of their week are in the default partition. Every worker shows the same.',
        labelNames: ['task'],
      },
      PARTITION_TASKS.map((task) => ({ task })),
    ),
    oldestDeletion: sampled(
      registry,
      'despatch_deletion_oldest_seconds',
      'For how long the deletion of a tenant that began first has been under way; every worker shows the same.',
    ),
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
