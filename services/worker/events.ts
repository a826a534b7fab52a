import type { EpochClock } from '#core/domain/clock.ts';
import type { AuditEntry, AuditTrail } from '#core/domain/tenant/audit-entry.ts';
import { BRAKE_LEVELS } from '#core/domain/tenant/brake.ts';
import type { Breaker } from '#core/domain/sending/breaker.ts';
import type { ReceiptDecisions } from '#core/domain/receipts/receipt-decisions.ts';
import type { LookupPause } from '#core/domain/receipts/decide-lookup.ts';
import type { EndpointHealth } from '#core/domain/webhooks/endpoint-state.ts';
import { ADAPTER_FAULT, type FailureClass } from '#core/domain/sending/failure.ts';
import type { AttemptOutcome } from '#core/domain/sending/outcome.ts';
import type { Settlement } from '#core/domain/sending/settlement.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { WaitingRow } from '#core/store/sending/lane.ts';
import type { DueLookup, SilentMessages } from '#core/store/receipts/lookups.ts';
import type { Maintained } from '#core/store/upkeep/partitions.ts';
import type { StoredReceiptCall } from '#core/store/receipts/receipt-reports.ts';
import type { WebhookEndpoint } from '#core/store/webhooks/delivery-claim.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import type { FailoverLabels, GivenUpReason, LookupOutcome } from '#core/platform/telemetry/worker-labels.ts';
import type { WorkerMetrics } from '#core/platform/telemetry/worker-metrics.ts';
import type { Refused } from './claim/refused-messages.ts';
import type { Delivered } from './deliver/deliver.ts';
import type { Called } from './webhooks/call-endpoint.ts';
import type { CallReading } from './receipts/read-call.ts';

type Health = Breaker['health'];

/**
 * Creates the functions that report what happened in the worker: each updates metrics and, where people need to know, writes one
 * log line. Lines use the API's terms; an account's id is `providerId`.
 */
export function createEvents(
  log: Logger,
  metrics: WorkerMetrics,
  epochMs: EpochClock,
  audit: AuditTrail = () => {},
) {
  return {
    /** @param unblockedMs how long the breaker of the message's account has been closed; 0 if it is not. */
    attemptFinished(
      message: ClaimedMessage,
      delivered: Delivered,
      settlement: Settlement | null,
      unblockedMs = Number.POSITIVE_INFINITY,
    ): void {
      const { outcome } = delivered;
      const labels = { channel: message.channel, provider: message.provider };
      metrics.attempted({ ...labels, outcome: outcome.kind, tenantId: message.tenantId });
      const ageSeconds = (epochMs() - message.waitsSince.getTime()) / 1_000;
      const { calledAt, callMs } = delivered;
      if (callMs !== undefined) metrics.called(message.provider, callMs / 1_000, isAnswered(outcome));
      if (calledAt !== undefined && isFirstCall(message) && waitsForUs(message) && unblockedMs > 0) {
        // Nothing waited for its call while the outcome was recorded.
        const sinceCallMs = epochMs() - calledAt;
        const waitedMs = Math.min(epochMs() - sendableSince(message), unblockedMs) - sinceCallMs;
        metrics.firstAttemptSeconds.observe(Math.max(0, waitedMs) / 1_000);
      }
      if (settlement !== null && settlement.nextAttemptAt === null) {
        // For a message that a provider had accepted before, delivery had ended then.
        if (message.sentAccountId === null)
          metrics.endToEndSeconds.observe({ channel: message.channel }, ageSeconds);
        const reason = givenUpBecause(settlement);
        if (reason !== null) metrics.givenUp(reason);
      }
      // Tests break this (mutant: attempt-line): message contents do not reach the log.
      const line = {
        ...namesOf(message),
        providerId: message.accountId,
        ...labels,
        attempt: message.attempt,
        outcome: outcome.kind,
        ...reasonOf(outcome),
        callMs: callMs === undefined ? undefined : Math.round(callMs),
        status: settlement?.status ?? 'stale',
      };
      log.info(line, 'Attempt finished');
    },
    failedOver(failover: FailoverLabels): void {
      metrics.failedOver(failover);
    },
    /**
     * A message ended without another call: it expired, its recipient is suppressed, or its channel has lost its last provider.
     */
    endedUncalled(message: WaitingRow, reason: FailureClass | 'suppressed'): void {
      const { channel, attempt } = message;
      // A suppressed recipient is not a fault.
      if (reason === 'suppressed') metrics.suppressed(channel);
      else metrics.givenUp(reason);
      metrics.endToEndSeconds.observe({ channel }, (epochMs() - message.waitsSince.getTime()) / 1_000);
      log.info(
        { ...namesOf(message), channel, attempt, reason },
        reason === 'suppressed' ? 'Message suppressed' : 'Message given up',
      );
    },
    /** A channel of a tenant is slowed or held. */
    brakeApplied(entry: AuditEntry): void {
      const { level, channel, reason, rate, bound } = entry.facts;
      const known = BRAKE_LEVELS.find((one) => one === level);
      if (known !== undefined) metrics.brakeApplied(known);
      audit(entry);
      log.warn({ tenantId: entry.tenantId, channel, level, reason, rate, bound }, 'Abuse brake applied');
    },
    claimFailed(error: unknown): void {
      log.error({ err: error }, 'Claim failed');
    },
    /** A message ended because the database refuses to begin its call. */
    claimRefused({ seq, tenantId, id, requestId }: Refused, error: unknown): void {
      metrics.givenUp('unknown');
      log.error(
        { seq, tenantId, messageId: id, requestId, err: error },
        'Message given up: its claim is refused',
      );
    },
    recordDelayed(error: unknown, rows: number): void {
      log.error({ rows, err: error }, 'Recording delayed');
    },
    recordLost(message: ClaimedMessage, error: unknown): void {
      log.error({ ...namesOf(message), err: error }, 'Recording given up');
    },
    /** @param message undefined for the check of a credential. */
    adapterFault(provider: string, error: unknown, message?: ClaimedMessage): void {
      log.error(
        { ...(message === undefined ? {} : namesOf(message)), provider, err: error },
        'Provider adapter threw',
      );
    },
    taskBegun: (task: string): void => metrics.taskBegun(task, epochMs() / 1_000),
    taskSucceeded: (task: string): void => metrics.taskSucceeded(task, epochMs() / 1_000),
    taskFailed(task: string, error: unknown): void {
      metrics.taskFailed(task);
      log.error({ task, err: error }, 'Task failed');
    },
    accountMoved(accountId: string, tenantId: string, status: string): void {
      log.warn({ providerId: accountId, tenantId, status }, 'Provider account status changed');
    },
    accountHealth(accountId: string, provider: string, health: Health): void {
      log.warn({ providerId: accountId, provider, health }, 'Provider account health changed');
    },
    accountVerified(accountId: string, result: string): void {
      log.info({ providerId: accountId, result }, 'Provider credential checked');
    },
    /** Receipts that wait for their message are reported when they are settled. */
    receiptsSettled(settled: ReceiptDecisions['results']): void {
      for (const { provider, asked, result, isEnd } of settled) {
        if (result !== 'waiting') metrics.receipt(provider, asked ? 'asked' : result);
        if (isEnd) metrics.awaited(provider, asked ? 'asked' : 'heard');
      }
    },
    /** The wait for receipts of these messages ended without a report. */
    messagesSilent(silent: readonly SilentMessages[]): void {
      for (const { tenantId, accountId, provider, messages } of silent) {
        metrics.awaited(provider ?? 'unknown', 'silent', messages);
        log.warn({ tenantId, providerId: accountId, provider, messages }, 'Messages never heard of');
      }
    },
    /** The receipts of a readable call are counted when they are settled. */
    receiptCallRead(
      provider: string,
      { kind }: CallReading,
      { tenantId, accountId, wasRefused }: StoredReceiptCall,
    ): void {
      if (wasRefused || (kind !== 'forged' && kind !== 'unreadable')) return;
      metrics.receipt(provider, kind);
      log.warn({ tenantId, providerId: accountId, provider, result: kind }, 'Receipt refused');
    },
    /** Lookups through an account are paused. */
    lookupsPaused(
      { tenantId, accountId, provider }: DueLookup,
      { reason, failures, pauseMs }: LookupPause,
    ): void {
      const pauseSeconds = Math.round(pauseMs / 1_000);
      log.warn(
        { tenantId, providerId: accountId, provider, reason, failures, pauseSeconds },
        reason === 'forbidden' ? 'Provider account may not ask about messages' : 'Provider is not asked',
      );
    },
    /** The database refuses the provider's answer about a message, which is looked up again later. */
    lookupUnstorable({ tenantId, accountId, provider, messageId }: DueLookup, error: unknown): void {
      log.error(
        { tenantId, messageId, providerId: accountId, provider, err: error },
        'Answer about a message is refused',
      );
    },
    lookedUp({ tenantId, messageId, accountId, provider }: DueLookup, result: LookupOutcome): void {
      metrics.lookedUp(provider, result);
      log.info({ tenantId, messageId, providerId: accountId, provider, result }, 'Message asked about');
    },
    /** Events of tenants' feeds got their numbers. */
    numbered(count: number): void {
      metrics.eventsNumbered.inc(count);
    },
    /** An endpoint was called for an event. Only failures are logged, because there may be thousands of calls a second. */
    webhookCalled({ endpoint, claimed, attempt, delivered, isExhausted }: Called): void {
      const result = delivered.succeeded ? 'succeeded' : isExhausted ? 'exhausted' : 'failed';
      const ageSeconds = Math.max(0, (epochMs() - claimed.event.at.getTime()) / 1_000);
      metrics.webhookCalled(result, delivered.succeeded && attempt === 1 ? ageSeconds : null);
      if (delivered.succeeded) return;
      const { response, error, durationMs: callMs } = delivered;
      log.info(
        {
          ...endpointNames(endpoint),
          eventId: claimed.event.id,
          seq: claimed.seq,
          attempt,
          status: response?.status,
          reason: error ?? undefined,
          callMs,
        },
        isExhausted ? 'Webhook delivery exhausted' : 'Webhook call failed',
      );
    },
    endpointMoved(endpoint: WebhookEndpoint, { status, statusReason, failures }: EndpointHealth): void {
      const line = { ...endpointNames(endpoint), status, reason: statusReason ?? undefined, failures };
      if (status === 'active') log.info(line, 'Webhook endpoint works again');
      else log.warn(line, `Webhook endpoint ${status}`);
    },
    /** A stored event does not match its type's schema: a bug in Despatch. */
    eventUnreadable(endpoint: WebhookEndpoint, eventId: string, error: unknown): void {
      log.error({ ...endpointNames(endpoint), eventId, err: error }, 'Event cannot be sent to an endpoint');
    },
    deliveriesDelayed(error: unknown, claims: number): void {
      log.error({ claims, err: error }, 'Recording of webhook calls delayed');
    },
    maintained({ made, dropped, busy, unsettled }: Maintained): void {
      log.info({ made, dropped, busy, unsettled }, 'Partitions maintained');
    },
    streamRecreated(): void {
      log.warn('Wake-up stream recreated');
    },
  };
}

/** Fields that connect a log line with those of the api: the request that was answered with the 202, and its message. */
function namesOf({ tenantId, id, requestId }: Pick<ClaimedMessage, 'tenantId' | 'id' | 'requestId'>) {
  return { tenantId, messageId: id, ...(requestId === null ? {} : { requestId }) };
}

function endpointNames({ tenantId, id: endpointId }: WebhookEndpoint) {
  return { tenantId, endpointId };
}

export type WorkerEvents = ReturnType<typeof createEvents>;

function reasonOf(outcome: AttemptOutcome): { reason?: string; failureClass?: string } {
  if (outcome.kind === 'not_started') return { reason: outcome.reason };
  return 'failure' in outcome ? { reason: outcome.failure.code, failureClass: outcome.failure.class } : {};
}

/** Whether a server answered the call. What it said has a status or a code of the provider's own. */
function isAnswered(outcome: AttemptOutcome): boolean {
  if (!('failure' in outcome)) return true;
  const { class: failureClass, httpStatus, providerCode } = outcome.failure;
  return failureClass !== 'provider_unavailable' || httpStatus !== undefined || providerCode !== undefined;
}

/**
 * Whether this is the message's first call. Attempts that never reached the provider, for example because of Vault or a shutdown,
 * do not count as calls.
 */
function isFirstCall(message: ClaimedMessage): boolean {
  const { retries, ambiguous, providerWaits, sentAccountId } = message;
  return retries + ambiguous + providerWaits === 0 && sentAccountId === null;
}

/**
 * Whether a late first call can be our fault. A brake makes the messages of its channel wait for a turn, an account's rate limit
 * those of the account, and an account with a stale health was behind a breaker of which this process knows nothing.
 */
function waitsForUs({ isSlowed, rateLimitPerSecond, isHealthStale }: ClaimedMessage): boolean {
  return !isSlowed && rateLimitPerSecond === null && !isHealthStale;
}

/** In ms since the epoch. No worker could have sent the message while it was held. */
function sendableSince({ waitsSince, releasedAt }: ClaimedMessage): number {
  return Math.max(waitsSince.getTime(), releasedAt?.getTime() ?? 0);
}

/** Null for a message that the provider accepted. */
function givenUpBecause({ status, failure }: Settlement): GivenUpReason | null {
  if (failure === null || status === 'sent') return null;
  if (status !== 'unknown') return failure.class;
  return failure.code === 'worker_lost' || failure.code === ADAPTER_FAULT ? failure.code : 'no_answer';
}
