import { Counter, Gauge, Histogram } from 'prom-client';
import { BATCH_MODES, type BatchMode } from '#core/domain/message/batch-answer.ts';
import { CHANNELS, type Channel } from '#core/domain/message/channel.ts';
import { createBaseMetrics, SECONDS } from './base-metrics.ts';
import { sampled } from './sampled-metrics.ts';
import { tenantCounters, type TenantMetricsOptions } from './tenant-metrics.ts';

export const REJECTION_REASONS = ['quota', 'rate', 'validation', 'suspended', 'dependency'] as const;
export type RejectionReason = (typeof REJECTION_REASONS)[number];

/** How messages were canceled: one by its id, or all that match a filter. */
export const CANCEL_MEANS = ['id', 'filter'] as const;
export type CancelMeans = (typeof CANCEL_MEANS)[number];

/**
 * Results of a client's batch. `whole`: every message was accepted; `partial`: some were not; `refused`: none was; `replayed`:
 * answered from a stored answer; `failed`: the database did not answer.
 */
export const BATCH_RESULTS = ['whole', 'partial', 'refused', 'replayed', 'failed'] as const;
export type BatchResult = (typeof BATCH_RESULTS)[number];

/** Up to the largest `batchMessagesMax` of a built-in plan, and larger values that an operator may set. */
const BATCH_MESSAGES = [1, 10, 50, 100, 200, 500, 1_000];

export function createApiMetrics({ tenantsMax = 0 }: TenantMetricsOptions = {}) {
  const { registry, ...base } = createBaseMetrics(['encrypt', 'create_key']);
  const on = [registry];
  const requests = new Counter({
    name: 'despatch_http_requests_total',
    help: 'Requests answered, by route pattern; code 499 for those whose clients went before that.',
    labelNames: ['method', 'route', 'code'],
    registers: on,
  });
  const seconds = new Histogram({
    name: 'despatch_http_request_duration_seconds',
    help: 'Time from the request line to the last byte of the answer, or until its client went, without the time in which the api waited for its body; not of requests refused with 4xx.',
    labelNames: ['method', 'route'],
    buckets: SECONDS,
    registers: on,
  });
  const inFlight = new Gauge({
    name: 'despatch_http_requests_in_flight',
    help: 'Requests not answered yet.',
    registers: on,
  });
  const bodiesRefused = new Counter({
    name: 'despatch_http_bodies_refused_total',
    help: 'Requests that no memory was left for, or for their answers, and those whose bodies came too slowly.',
    labelNames: ['reason'],
    registers: on,
  });
  for (const reason of ['memory', 'slow', 'answer']) bodiesRefused.inc({ reason }, 0);
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
  const canceled = new Counter({
    name: 'despatch_messages_canceled_total',
    help: 'Messages that somebody canceled before they were sent: one by its id, or many by a filter.',
    labelNames: ['channel', 'by'],
    registers: on,
  });
  const batches = new Counter({
    name: 'despatch_batches_total',
    help: 'Batches that clients have sent, by what became of them.',
    labelNames: ['mode', 'result'],
    registers: on,
  });
  for (const mode of BATCH_MODES) for (const result of BATCH_RESULTS) batches.inc({ mode, result }, 0);
  const batchMessages = new Histogram({
    name: 'despatch_batch_messages',
    help: 'Messages of a batch, whatever became of them.',
    buckets: BATCH_MESSAGES,
    registers: on,
  });
  const limitWarnings = new Counter({
    name: 'despatch_limit_warnings_total',
    help: "Tenants that came to 80 % of their day's messages (approaching) or used them up (reached).",
    labelNames: ['level'],
    registers: on,
  });
  for (const level of ['approaching', 'reached']) limitWarnings.inc({ level }, 0);
  const issuerKeyErrors = new Counter({
    name: 'despatch_issuer_key_errors_total',
    help: "Fetches of the OpenID Connect issuer's keys that failed. They are made when people call, every two seconds at most while they fail.",
    registers: on,
  });
  for (const channel of CHANNELS) {
    accepted.inc({ channel }, 0);
    for (const by of CANCEL_MEANS) canceled.inc({ channel, by }, 0);
  }
  for (const reason of REJECTION_REASONS) rejected.inc({ reason }, 0);
  const tenants = tenantCounters(registry, tenantsMax, {
    accepted: {
      name: 'despatch_tenant_messages_accepted_total',
      help: 'Messages that were stored and answered with 202, by tenant.',
    },
    rejected: {
      name: 'despatch_tenant_messages_rejected_total',
      help: 'Messages that were refused, by tenant.',
      label: { name: 'reason', words: REJECTION_REASONS },
    },
  });
  return {
    ...base,
    registry,
    /** Starts a route's series at 0, so that its first fault is visible. */
    routeKnown(known: { method: string; route: string; codes: readonly number[] }): void {
      const { method, route } = known;
      for (const code of known.codes) requests.inc({ method, route, code: String(code) }, 0);
      seconds.zero({ method, route });
    },
    requestMemory: sampled(
      registry,
      'despatch_http_request_memory_bytes',
      'Memory reserved for bodies of requests, and for answers that wait to be read.',
    ),
    bodyRefused: (reason: 'memory' | 'slow' | 'answer'): void => bodiesRefused.inc({ reason }),
    requestStarted: (): void => inFlight.inc(),
    /** @param request `seconds` is null if the time was spent waiting for the client. */
    requestFinished(request: {
      method: string;
      route: string;
      statusCode: number;
      seconds: number | null;
    }): void {
      const { method, route } = request;
      inFlight.dec();
      requests.inc({ method, route, code: String(request.statusCode) });
      if (request.seconds !== null) seconds.observe({ method, route }, request.seconds);
    },
    accepted(channel: Channel, tenantId: string): void {
      accepted.inc({ channel });
      tenants.accepted(tenantId);
    },
    canceled: (channel: Channel, by: CancelMeans): void => canceled.inc({ channel, by }),
    batchEnded(mode: BatchMode, result: BatchResult, messages: number): void {
      batches.inc({ mode, result });
      batchMessages.observe(messages);
    },
    issuerKeysFailed: (): void => issuerKeyErrors.inc(),
    limitWarned: (level: 'approaching' | 'reached'): void => limitWarnings.inc({ level }),
    /** @param tenantId null where the tenant is unknown. */
    rejected(reason: RejectionReason, tenantId: string | null): void {
      rejected.inc({ reason });
      if (tenantId !== null) tenants.rejected(tenantId, reason);
    },
    unsubscribes: new Counter({
      name: 'despatch_unsubscribes_total',
      help: 'Recipients that were put on a suppression list as they unsubscribed; who is on it already does not count.',
      registers: on,
    }),
    idempotencyReplays: new Counter({
      name: 'despatch_idempotency_replays_total',
      help: 'Requests answered from a stored answer.',
      registers: on,
    }),
  };
}

export type ApiMetrics = ReturnType<typeof createApiMetrics>;
