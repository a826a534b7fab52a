import type { AttemptOutcome } from '#core/domain/outcome.ts';
import type { Settlement } from '#core/domain/settle.ts';
import type { ClaimedMessage } from '#core/store/deliveries.ts';
import type { Logger } from '#core/platform/logger.ts';
import type { Delivered } from './deliver.ts';

/** What the worker counts. Labels are bounded: never a tenant, a recipient or an id. */
export type WorkerMetrics = {
  readonly attemptFinished: (attempt: {
    readonly channel: string;
    readonly provider: string;
    readonly outcome: AttemptOutcome['kind'];
    /** The provider call alone; undefined when none was made. */
    readonly callSeconds: number | undefined;
    /** From acceptance to the first call; undefined for later ones. */
    readonly firstAttemptSeconds: number | undefined;
  }) => void;
  /** From acceptance to the last thing a worker will do for the message by itself. */
  readonly messageFinished: (message: { readonly channel: string; readonly seconds: number }) => void;
  readonly databaseFailed: (op: string) => void;
  readonly breakerMoved: (move: { readonly health: string }) => void;
};

/** What happened in the worker, told once: a metric and, where people need to know, one log line. */
export function createEvents(log: Logger, metrics: WorkerMetrics, now: () => number) {
  return {
    attemptFinished(message: ClaimedMessage, delivered: Delivered, settlement: Settlement | null): void {
      const { outcome } = delivered;
      const labels = { channel: message.channel, provider: message.provider };
      const callSeconds = delivered.callMs === undefined ? undefined : delivered.callMs / 1_000;
      const ageSeconds = (now() - message.enqueuedAt.getTime()) / 1_000;
      metrics.attemptFinished({
        ...labels,
        outcome: outcome.kind,
        callSeconds,
        firstAttemptSeconds:
          callSeconds === undefined || message.attempt > 1 ? undefined : Math.max(0, ageSeconds - callSeconds),
      });
      if (settlement !== null && settlement.nextAttemptAt === null) {
        metrics.messageFinished({ channel: message.channel, seconds: ageSeconds });
      }
      const line = {
        tenantId: message.tenantId,
        messageId: message.id,
        providerId: message.providerId,
        ...labels,
        attempt: message.attempt,
        outcome: outcome.kind,
        ...reasonOf(outcome),
        callMs: delivered.callMs === undefined ? undefined : Math.round(delivered.callMs),
        status: settlement?.status ?? 'stale',
      };
      if (outcome.kind === 'accepted') log.debug(line, 'Attempt finished');
      else log.info(line, 'Attempt finished');
    },
    claimFailed(error: unknown): void {
      metrics.databaseFailed('claim');
      log.error({ err: error }, 'Claim failed');
    },
    recordDelayed(error: unknown, rows: number): void {
      metrics.databaseFailed('complete');
      log.error({ rows, err: error }, 'Recording delayed');
    },
    recordLost(message: ClaimedMessage, error: unknown): void {
      log.error({ tenantId: message.tenantId, messageId: message.id, err: error }, 'Recording given up');
    },
    adapterFault(provider: string, error: unknown): void {
      log.error({ provider, err: error }, 'Provider adapter threw');
    },
    taskFailed(task: string, error: unknown): void {
      metrics.databaseFailed(task);
      log.error({ task, err: error }, 'Task failed');
    },
    accountMoved(accountId: string, tenantId: string, status: string): void {
      log.warn({ providerId: accountId, tenantId, status }, 'Provider status changed');
    },
    accountHealth(accountId: string, health: string): void {
      metrics.breakerMoved({ health });
      log.warn({ providerId: accountId, health }, 'Provider health changed');
    },
    accountVerified(accountId: string, result: string): void {
      log.info({ providerId: accountId, result }, 'Provider credential checked');
    },
    maintained(result: { made: number; dropped: readonly string[] }): void {
      log.info({ made: result.made, dropped: result.dropped }, 'Partitions maintained');
    },
    streamRecreated(woken: number): void {
      log.warn({ woken }, 'Wake-up stream recreated');
    },
  };
}

export type WorkerEvents = ReturnType<typeof createEvents>;

function reasonOf(outcome: AttemptOutcome): { reason?: string; failureClass?: string } {
  if (outcome.kind === 'not_started') return { reason: outcome.reason };
  return 'failure' in outcome ? { reason: outcome.failure.code, failureClass: outcome.failure.class } : {};
}
