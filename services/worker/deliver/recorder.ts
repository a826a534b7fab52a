import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';
import { settle } from '#core/domain/sending/settle.ts';
import type { Settlement } from '#core/domain/sending/settlement.ts';
import { bisectFaults } from '#core/domain/storage/bisect-faults.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import { doubledMs, pause } from '#core/platform/process/pause.ts';
import type { FailoverLabels } from '#core/platform/telemetry/worker-labels.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { Completion } from '#core/store/sending/completion.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import { askUntilAnswered, type AskUntilAnsweredDeps } from '../ask-until-answered.ts';
import type { Delivered } from './deliver.ts';
import { mayFailOver, type AccountedFacts } from './failover-facts.ts';
import { keyKnownUntil } from './key-known-until.ts';
import type { ReceiptTimeouts } from './receipt-timeouts.ts';
import { toCompletion, withoutVendorWords } from './completion.ts';

export type Recorder = {
  /**
   * Records an attempt's end and what follows for the message. Retries while the database is unavailable, for as long as the
   * process lives: the slots stay taken, so the worker claims nothing new meanwhile. A row that the database refuses is tried again
   * too, until others with the same next state have been taken: a damaged index or a fault in a function refuses every row, and
   * each call whose record is given up is repeated.
   * @returns null if the attempt was no longer the message's current one.
   */
  record(message: ClaimedMessage, delivered: Delivered): Promise<Settlement | null>;
  drain(): Promise<void>;
};

export type RecorderDeps = AskUntilAnsweredDeps & {
  readonly store: Pick<WorkerStore, 'complete'>;
  /** Returns the accounts through which a refused message may go on; undefined if it must stay with its own. */
  readonly failoverFacts: (message: ClaimedMessage) => Promise<AccountedFacts | undefined>;
  /** How long a message waits for its receipt before another account sends it too. */
  readonly receiptTimeouts: Pick<ReceiptTimeouts, 'of'>;
  /** Called when it is recorded that a message goes on to another account. */
  readonly onFailedOver: (failover: FailoverLabels) => void;
  readonly random: () => number;
  /** The most provider calls at once in this process; each holds its slot until it is recorded. */
  readonly inFlightMax: number;
};

type Written = 'applied' | 'stale' | { readonly error: unknown };

const BATCH_MAX = 256;
/** Gathering holds slots for longer: a tenant with ten slots and calls of 100 ms makes 80 calls a second instead of 100. */
const GATHER_MS = 25;
/** Beyond this size a larger batch hardly lowers the cost per row. */
const ENOUGH = 64;
/** Pauses between the tries of a refused row; each try costs some statements. */
const AGAIN = { minMs: 250, maxMs: 5_000 };
const REPORT_EVERY_MS = 5_000;

export function createRecorder(deps: RecorderDeps): Recorder {
  const batch = createMicroBatch<Completion, Written>({
    flush: write,
    itemsMax: BATCH_MAX,
    flushesMax: 2,
    // A recorded call only frees its slot, so it can wait; larger batches cost the database much less.
    gatherMs: GATHER_MS,
    enough: Math.min(ENOUGH, Math.ceil(deps.inFlightMax / 2)),
    queuedMax: Number.POSITIVE_INFINITY,
  });

  /** When rows were taken last, by their messages' next states. */
  const takenAt = new Map<string, number>();
  let reportedAt = Number.NEGATIVE_INFINITY;

  /** Rows that were refused once and are written again without the provider's texts, which may have been the reason. */
  const stripped = new WeakSet<Completion>();

  function write(rows: readonly Completion[]): Promise<readonly Written[]> {
    return bisectFaults(rows, writeWithRetries, refuse);
  }

  /** Writes rows. @throws if the database refuses a row, or if the recorder was abandoned. */
  async function writeWithRetries(rows: readonly Completion[]): Promise<Written[]> {
    const isRefused = (error: unknown): boolean => databaseFaultOf(error) === 'row';
    const applied = await askUntilAnswered(() => deps.store.complete(rows), rows.length, deps, isRefused);
    for (const { status } of rows) takenAt.set(status, performance.now());
    return rows.map((row) => (applied.has(row.seq) ? 'applied' : 'stale'));
  }

  /** Retries a refused row once without the provider's texts. */
  async function refuse(rows: readonly Completion[], error: unknown): Promise<readonly Written[]> {
    if (databaseFaultOf(error) !== 'row' || deps.signal.aborted) throw error;
    const [row] = rows;
    if (row === undefined || stripped.has(row)) return [{ error }];
    const rest = withoutVendorWords(row);
    stripped.add(rest);
    return await write([rest]);
  }

  /** Tries a refused row again until the database has taken others of its kind and refuses it still. */
  async function writeAgain(row: Completion, error: unknown): Promise<Written> {
    const refusedAt = performance.now();
    let written: Written = { error };
    for (let tries = 0; typeof written === 'object' && !deps.signal.aborted; tries++) {
      if (performance.now() - reportedAt >= REPORT_EVERY_MS) {
        reportedAt = performance.now();
        deps.onFailure(written.error, 1);
      }
      await pause(doubledMs(tries, AGAIN), deps.signal);
      const areOthersTaken = (takenAt.get(row.status) ?? Number.NEGATIVE_INFINITY) > refusedAt;
      written = await batch.add(row);
      if (areOthersTaken) break;
    }
    return written;
  }

  return {
    async record(message, delivered) {
      const { outcome, provider, receiptsExpected = false, callMs } = delivered;
      const failover = mayFailOver(outcome, message) ? await deps.failoverFacts(message) : undefined;
      const isAwaited = outcome.kind === 'accepted' && receiptsExpected;
      const timeout = isAwaited ? deps.receiptTimeouts.of(message) : undefined;
      // A known value needs no turn of the event loop.
      const receiptTimeoutMs = timeout instanceof Promise ? await timeout : timeout;
      const now = Date.now();
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
          keyKnownUntil: keyKnownUntil(message, provider, now - (callMs ?? 0)),
          receiptsExpected,
          lookup: provider?.lookup?.by,
          sentBy: message.sentAccountId ?? undefined,
          receiptTimeoutMs,
          failover: failover?.facts,
        },
        now,
        deps.random(),
      );
      const row = toCompletion(message, delivered, settlement, now);
      let written = await batch.add(row);
      if (typeof written === 'object') written = await writeAgain(row, written.error);
      if (typeof written === 'object') throw written.error;
      if (written !== 'applied') return null;
      const { rerouted } = settlement;
      if (rerouted !== null && !settlement.returned && 'failure' in outcome) {
        const to = failover?.providers.get(rerouted.accountId) ?? 'unknown';
        const { channel, provider: refusing } = message;
        deps.onFailedOver({ channel, provider: refusing, to, because: outcome.failure.class });
      }
      return settlement;
    },
    drain: () => batch.drain(),
  };
}
