import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { BrakeChannels } from './brake-channels.ts';

export type CountUsageDeps = {
  readonly store: Pick<WorkerStore, 'countUsage'>;
  readonly brakeChannels: BrakeChannels;
  /** Called for each brake that follows from the counts. */
  readonly onBraked: (entry: AuditEntry) => void;
  /** Called after each full batch. */
  readonly onBatch: () => void;
  readonly isStopping: () => boolean;
};

/**
 * Moves of messages that one pass takes. Each pass writes every counter that they change, of a tenant up to thirty, so that few
 * large passes cost less; a pass of this size takes about half a second.
 */
const MOVES_AT_ONCE = 10_000;
/** Time between two passes of any workers: the moves that a message makes in between cost little more than one. */
export const COUNTING_MS = 15_000;

/**
 * Counts the moves committed since the last pass, in as many passes as needed, and decides about brakes.
 * @returns `unfinished` if another worker is counting: its pass may fail, and must not pass for a success of this one.
 */
export async function countUsage({
  store,
  brakeChannels,
  onBraked,
  onBatch,
  isStopping,
}: CountUsageDeps): Promise<'unfinished' | undefined> {
  for (;;) {
    const { outcome, windows } = await store.countUsage(MOVES_AT_ONCE, COUNTING_MS / 2);
    for (const entry of await brakeChannels(windows)) onBraked(entry);
    if (outcome === 'elsewhere') return 'unfinished';
    if (outcome !== 'more' || isStopping()) return undefined;
    onBatch();
  }
}
