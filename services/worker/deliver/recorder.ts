import { databaseFaultOf } from '#core/domain/database-fault.ts';
import { settle, type Settlement } from '#core/domain/settle.ts';
import type { AttemptOutcome } from '#core/domain/outcome.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import type { ClaimedMessage, Completion, DeliveryStore } from '#core/store/deliveries.ts';
import type { AnyProvider } from '#providers/provider.ts';
import { toCompletion, withoutVendorWords } from './completion.ts';

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
  /** Provider calls at once in this process; each holds its place until it is recorded. */
  readonly inFlightMax: number;
};

type Written = 'applied' | 'stale' | { readonly error: unknown };

const BATCH_MAX = 256;
/** A tenant with few places calls less often for it: ten places and calls of 100 ms make 80 a second and not 100. */
const GATHER_MS = 25;
/** A larger batch costs each of its rows little less. */
const ENOUGH = 64;
const RETRY_MS_MAX = 5_000;

export function createRecorder(deps: RecorderDeps): Recorder {
  const batch = createMicroBatch<Completion, Written>({
    flush: writeStubbornly,
    itemsMax: BATCH_MAX,
    flushesMax: 2,
    // Nobody waits for the record of a call but its place; larger batches cost the database much less.
    gatherMs: GATHER_MS,
    enough: Math.min(ENOUGH, Math.ceil(deps.inFlightMax / 8)),
    queuedMax: Number.POSITIVE_INFINITY,
  });

  /** Rows that were refused once and hold nothing any more that could be refused. */
  const bared = new WeakSet<Completion>();

  async function writeStubbornly(rows: readonly Completion[]): Promise<Written[]> {
    for (let delayMs = 50; ; delayMs = Math.min(delayMs * 2, RETRY_MS_MAX)) {
      try {
        const applied = await deps.store.complete(rows);
        return rows.map((row) => (applied.has(row.seq) ? 'applied' : 'stale'));
      } catch (error) {
        deps.onFailure(error, rows.length);
        if (deps.signal.aborted) throw error;
        if (databaseFaultOf(error) === 'row') return writeApart(rows, error);
        await new Promise((resolve) => setTimeout(resolve, delayMs));
      }
    }
  }

  /** One row that the database refuses must not keep the others from being recorded. */
  async function writeApart(rows: readonly Completion[], error: unknown): Promise<Written[]> {
    if (rows.length > 1) {
      const half = rows.length >> 1;
      const [first, second] = [rows.slice(0, half), rows.slice(half)];
      return [...(await writeStubbornly(first)), ...(await writeStubbornly(second))];
    }
    const [row] = rows;
    if (row === undefined || bared.has(row)) return [{ error }];
    const rest = withoutVendorWords(row);
    bared.add(rest);
    return writeStubbornly([rest]);
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
      const written = await batch.add(toCompletion(message, outcome, settlement, now));
      if (typeof written === 'object') throw written.error;
      return written === 'applied' ? settlement : null;
    },
    drain: () => batch.drain(),
  };
}
