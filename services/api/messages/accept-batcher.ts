import { isPlaceRefused } from '#core/domain/storage/database-fault.ts';
import type { Nats } from '#core/platform/nats/nats-types.ts';
import { createCommitBatcher } from '#core/platform/process/commit-batcher.ts';
import type { AcceptRow, Verdict } from '#core/store/messages/acceptance.ts';
import { acceptWakes } from './accept-wakes.ts';

export type AcceptBatcher = {
  /**
   * Resolves after the commit that contains the message.
   * @param bytes Size of the request; limits the memory of waiting requests.
   * @throws QueueFullError under overload, or when this tenant alone takes half of the queue; the database's error when the
   * row itself is at fault or the database did not answer.
   */
  readonly accept: (row: AcceptRow, bytes: number) => Promise<Verdict>;
  /** Resolves when every accepted row is settled. */
  readonly drain: () => Promise<void>;
};

export type AcceptBatcherOptions = {
  readonly acceptMessages: (rows: readonly AcceptRow[], sweepAfterMs: number) => Promise<Verdict[]>;
  readonly wakes: Pick<Nats, 'isConnected' | 'publishWakes'>;
  /** Called when the database refused the places of rows: all places reserved with them are unusable. */
  readonly onPlaceRefused: () => void;
  readonly rowsMax?: number;
  /** Maximum bytes of one batch: every message in it waits until the whole batch is parsed and stored. Default 256 KiB. */
  readonly bytesMax?: number;
  readonly flushesMax?: number;
  readonly queuedMax?: number;
  readonly queuedBytesMax?: number;
};

type Request = { readonly row: AcceptRow; readonly bytes: number };

/** How long the sweep leaves a message to its wake-up. */
export const SWEEP_AFTER_MS = 5_000;

/**
 * One commit per message costs the database three times as much per message as a commit of eight. A request on an idle system
 * does not wait. Measured on two cores at 450 and 1,200 messages a second: with 6 ms a message costs 0.85x of what it costs with
 * 3 ms, the 202 takes 1 ms longer at the lower rate and 1 ms less at the higher, and the call follows sooner at both. With 10 ms
 * both take longer.
 */
const GATHER_MS = 6;

/** Batches the requests of all connections into few commits and wakes the workers after each commit. */
export function createAcceptBatcher(options: AcceptBatcherOptions): AcceptBatcher {
  const { acceptMessages, wakes, onPlaceRefused, ...bounds } = options;
  const batch = createCommitBatcher<Request, Verdict>({
    ...bounds,
    store: (requests) =>
      acceptMessages(
        requests.map(({ row }) => row),
        wakes.isConnected() ? SWEEP_AFTER_MS : 0,
      ),
    ownerOf: ({ row }) => row.tenant_id,
    bytesOf: ({ bytes }) => bytes,
    gatherMs: GATHER_MS,
    onSettled(requests, verdicts) {
      const accepted = requests.filter((_, i) => verdicts[i]?.verdict === 'accepted');
      const publications = acceptWakes(accepted.map(({ row }) => row));
      // Not awaited: the sweep finds messages whose wake-up is lost.
      if (publications.length > 0) void wakes.publishWakes(publications);
    },
    onRejected(error) {
      if (isPlaceRefused(error)) onPlaceRefused();
    },
  });

  return {
    async accept(row, bytes) {
      // Tests break this (mutant: commit-before-202): no 202 goes out before the commit.
      const verdict = await batch.add({ row, bytes });
      return verdict;
    },
    drain: () => batch.drain(),
  };
}
