import { isPlaceRefused } from '#core/domain/storage/database-fault.ts';
import type { Nats } from '#core/platform/nats/nats-types.ts';
import { bisectFaults } from '#core/domain/storage/bisect-faults.ts';
import { createMicroBatch } from '#core/platform/process/micro-batch.ts';
import { createQueueRoom } from '#core/platform/process/queue-room.ts';
import type { AcceptRow, Verdict } from '#core/store/acceptance.ts';
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
type Settled = { readonly verdict: Verdict } | { readonly error: unknown };

/** How long the sweep leaves a message to its wake-up. */
export const SWEEP_AFTER_MS = 5_000;

/** Longer than a commit takes on a healthy database. */
const OVERLAP_AFTER_MS = 50;

/**
 * One commit per message costs the database three times as much per message as a commit of eight. A request on an idle system
 * does not wait. Measured on two cores at 450 and 1,200 messages a second: with 6 ms a message costs 0.85x of what it costs with
 * 3 ms, the 202 takes 1 ms longer at the lower rate and 1 ms less at the higher, and the call follows sooner at both. With 10 ms
 * both take longer.
 */
const GATHER_MS = 6;

/** Batches the requests of all connections into few commits and wakes the workers after each commit. */
export function createAcceptBatcher(options: AcceptBatcherOptions): AcceptBatcher {
  const { acceptMessages, wakes, onPlaceRefused } = options;
  const {
    rowsMax = 128,
    bytesMax = 256 * 1024,
    flushesMax = 2,
    queuedMax = 2_000,
    queuedBytesMax = 64 * 1024 * 1024,
  } = options;
  const room = createQueueRoom({ itemsMax: queuedMax, bytesMax: queuedBytesMax });

  const settle = (rows: readonly AcceptRow[]): Promise<readonly Settled[]> =>
    bisectFaults<AcceptRow, Settled>(
      rows,
      async (some) => {
        const verdicts = await acceptMessages(some, wakes.isConnected() ? SWEEP_AFTER_MS : 0);
        return verdicts.map((verdict) => ({ verdict }));
      },
      (some, error) => {
        if (isPlaceRefused(error)) onPlaceRefused();
        return some.map(() => ({ error }));
      },
    );

  const batch = createMicroBatch<Request, Settled>({
    itemsMax: rowsMax,
    weightMax: bytesMax,
    weightOf: ({ bytes }) => bytes,
    flushesMax,
    overlapAfterMs: OVERLAP_AFTER_MS,
    gatherMs: GATHER_MS,
    enough: 32,
    queuedMax,
    // A tenant that floods the api waits behind its own requests; other tenants' requests are in the next commit.
    ownerOf: ({ row }) => row.tenant_id,
    async flush(requests) {
      const rows = requests.map(({ row }) => row);
      const settled = await settle(rows);
      wake(rows, settled);
      return settled;
    },
  });

  /** Not awaited: the sweep finds messages whose wake-up is lost. */
  function wake(rows: readonly AcceptRow[], settled: readonly Settled[]): void {
    const accepted = rows.filter((_, i) => isAccepted(settled[i]));
    const publications = acceptWakes(accepted);
    if (publications.length > 0) void wakes.publishWakes(publications);
  }

  return {
    async accept(row, bytes) {
      const leave = room.enter(row.tenant_id, bytes);
      try {
        // Tests break this (mutant: commit-before-202): no 202 goes out before the commit.
        const settled = await batch.add({ row, bytes });
        if ('error' in settled) throw settled.error;
        return settled.verdict;
      } finally {
        leave();
      }
    },
    drain: () => batch.drain(),
  };
}

function isAccepted(settled: Settled | undefined): boolean {
  return settled !== undefined && 'verdict' in settled && settled.verdict.verdict === 'accepted';
}
