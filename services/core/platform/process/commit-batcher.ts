import { bisectFaults } from '#core/domain/storage/bisect-faults.ts';
import { createMicroBatch } from './micro-batch.ts';
import { createQueueRoom } from './queue-room.ts';

export type CommitBatcher<Row, Verdict> = {
  /**
   * Resolves after the commit that contains the row.
   * @throws QueueFullError under overload, or when this owner alone takes half of the queue; the database's error when the row itself
   * is at fault or the database did not answer.
   */
  readonly add: (row: Row) => Promise<Verdict>;
  /** Resolves when every added row is settled. */
  readonly drain: () => Promise<void>;
};

export type CommitBatcherOptions<Row, Verdict> = {
  /** Stores rows in one commit. Returns a verdict for each, in order. */
  readonly store: (rows: readonly Row[]) => Promise<readonly Verdict[]>;
  /** An owner that floods the process waits behind its own rows; those of others are in the next commit. */
  readonly ownerOf: (row: Row) => string;
  /** Size of a row; limits a batch and the memory of waiting rows. */
  readonly bytesOf: (row: Row) => number;
  /** Least time between the starts of two batches, unless many rows wait. */
  readonly gatherMs: number;
  /** Called after the commits of a batch; a row that the database rejected has no verdict. */
  readonly onSettled: (rows: readonly Row[], verdicts: readonly (Verdict | undefined)[]) => void;
  /** Called with each error of the database. */
  readonly onRejected?: (error: unknown) => void;
  readonly rowsMax?: number | undefined;
  /** Maximum bytes of one batch: every row in it waits until the whole batch is serialized and stored. Default 256 KiB. */
  readonly bytesMax?: number | undefined;
  readonly flushesMax?: number | undefined;
  readonly queuedMax?: number | undefined;
  readonly queuedBytesMax?: number | undefined;
};

type Settled<Verdict> = { readonly verdict: Verdict } | { readonly error: unknown };

/** Longer than a commit takes on a healthy database. */
const OVERLAP_AFTER_MS = 50;
/** With so many rows a batch starts at once. */
const ENOUGH = 32;

/** Stores the rows of concurrent requests in few commits. A row that the database rejects is found by bisection and fails alone. */
export function createCommitBatcher<Row, Verdict extends {}>(
  options: CommitBatcherOptions<Row, Verdict>,
): CommitBatcher<Row, Verdict> {
  const { store, ownerOf, bytesOf, gatherMs, onSettled, onRejected } = options;
  const {
    rowsMax = 128,
    bytesMax = 256 * 1024,
    flushesMax = 2,
    queuedMax = 2_000,
    queuedBytesMax = 64 * 1024 * 1024,
  } = options;
  const room = createQueueRoom({ itemsMax: queuedMax, bytesMax: queuedBytesMax });

  const settle = (rows: readonly Row[]): Promise<readonly Settled<Verdict>[]> =>
    bisectFaults<Row, Settled<Verdict>>(
      rows,
      async (some) => (await store(some)).map((verdict) => ({ verdict })),
      (some, error) => {
        onRejected?.(error);
        return some.map(() => ({ error }));
      },
    );

  const batch = createMicroBatch<Row, Settled<Verdict>>({
    itemsMax: rowsMax,
    weightMax: bytesMax,
    weightOf: bytesOf,
    flushesMax,
    overlapAfterMs: OVERLAP_AFTER_MS,
    gatherMs,
    enough: ENOUGH,
    queuedMax,
    ownerOf,
    async flush(rows) {
      const settled = await settle(rows);
      onSettled(
        rows,
        settled.map((one) => ('verdict' in one ? one.verdict : undefined)),
      );
      return settled;
    },
  });

  return {
    async add(row) {
      const leave = room.enter(ownerOf(row), bytesOf(row));
      try {
        const settled = await batch.add(row);
        if ('error' in settled) throw settled.error;
        return settled.verdict;
      } finally {
        leave();
      }
    },
    drain: () => batch.drain(),
  };
}
