import { settle, type Settlement } from '#core/domain/settle.ts';
import type { AttemptOutcome } from '#core/domain/outcome.ts';
import { createMicroBatch } from '#core/platform/micro-batch.ts';
import type { ClaimedMessage, Completion, DeliveryStore } from '#core/store/deliveries.ts';
import type { AnyProvider } from '#providers/provider.ts';

export type Recorder = {
  /**
   * Records an attempt's end and what follows for the message. Waits out a database that is away, for as long as the
   * process lives: the slots stay taken, so nothing new is claimed meanwhile.
   * @returns null when the attempt was no longer the message's current one.
   */
  record(
    message: ClaimedMessage,
    outcome: AttemptOutcome,
    provider: AnyProvider | undefined,
  ): Promise<Settlement | null>;
  drain(): Promise<void>;
};

export type RecorderDeps = {
  readonly store: Pick<DeliveryStore, 'complete'>;
  readonly now: () => number;
  readonly random: () => number;
  /** A batch could not be written; it is tried again. */
  readonly onFailure: (error: unknown, rows: number) => void;
  readonly signal: AbortSignal;
};

const BATCH_MAX = 256;
const RETRY_MS_MAX = 5_000;

export function createRecorder(deps: RecorderDeps): Recorder {
  const batch = createMicroBatch<Completion, boolean>({
    flush: writeStubbornly,
    itemsMax: BATCH_MAX,
    flushesMax: 2,
    queuedMax: Number.POSITIVE_INFINITY,
  });

  async function writeStubbornly(rows: readonly Completion[]): Promise<boolean[]> {
    for (let delayMs = 50; ; delayMs = Math.min(delayMs * 2, RETRY_MS_MAX)) {
      try {
        const applied = await deps.store.complete(rows);
        return rows.map((row) => applied.has(row.id));
      } catch (error) {
        deps.onFailure(error, rows.length);
        if (deps.signal.aborted) throw error;
        // One row that the database refuses must not keep the others from being recorded.
        if (isDataError(error) && rows.length > 1) {
          const half = rows.length >> 1;
          const [first, second] = [rows.slice(0, half), rows.slice(half)];
          return [...(await writeStubbornly(first)), ...(await writeStubbornly(second))];
        }
        await new Promise((resolve) => setTimeout(resolve, delayMs));
      }
    }
  }

  return {
    async record(message, outcome, provider) {
      const now = deps.now();
      const settlement = settle(
        outcome,
        {
          retries: message.retries,
          ambiguous: message.ambiguous,
          providerWaits: message.providerWaits,
          duplicateRisk: message.duplicateRisk,
          deliveryGuarantee: message.deliveryGuarantee,
          expiresAt: message.expiresAt.getTime(),
          dedupe: provider?.dedupe ?? 'none',
          receiptsExpected: provider?.receipts ?? false,
        },
        now,
        deps.random(),
      );
      const applied = await batch.add(toCompletion(message, outcome, settlement, now));
      return applied ? settlement : null;
    },
    drain: () => batch.drain(),
  };
}

/** SQLSTATE classes 22 and 23: the row itself is at fault. */
function isDataError(error: unknown): boolean {
  const { code } = error as { code?: unknown };
  return typeof code === 'string' && /^2[23]/.test(code);
}

function toCompletion(
  message: ClaimedMessage,
  outcome: AttemptOutcome,
  next: Settlement,
  now: number,
): Completion {
  const failure = 'failure' in outcome ? outcome.failure : null;
  return {
    id: message.id,
    purge_on: message.purgeOn,
    seq: message.seq,
    tenant_id: message.tenantId,
    attempt: message.attempt,
    outcome: outcome.kind,
    outcome_reason: outcome.kind === 'not_started' ? outcome.reason : (failure?.code ?? null),
    failure,
    http_status: httpStatusOf(outcome),
    provider_message_id: outcome.kind === 'accepted' ? outcome.providerMessageId : null,
    status: next.status,
    reason: next.reason,
    failure_shown: next.failure,
    next_attempt_ms: next.nextAttemptAt === null ? null : Math.max(0, next.nextAttemptAt - now),
    retries: next.retries,
    ambiguous: next.ambiguous,
    provider_waits: next.providerWaits,
    duplicate_risk: next.duplicateRisk,
    final: next.final,
    await_ms: next.awaitUntil === null ? null : next.awaitUntil - now,
    receipts: next.receipts.length === 0 ? null : next.receipts,
  };
}

function httpStatusOf(outcome: AttemptOutcome): number | null {
  if (outcome.kind === 'not_started') return null;
  return (outcome.kind === 'accepted' ? outcome.httpStatus : outcome.failure.httpStatus) ?? null;
}
