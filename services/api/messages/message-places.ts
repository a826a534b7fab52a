import type { MonotonicClock } from '#core/domain/clock.ts';
import { unavailable } from '#core/domain/fault/app-error.ts';
import type { MessageId } from '#core/domain/storage/ids.ts';
import type { MessagePlace } from '#core/domain/storage/message-id.ts';
import { purgeDay } from '#core/domain/storage/purge-day.ts';
import { SEQS_PER_BLOCK, type SeqBlock } from '#core/store/messages/message-places.ts';
import type { LoadIds } from '#core/domain/storage/id-loader.ts';

export type NewPlace = MessagePlace & { readonly id: MessageId };

/** Assigns each new message its place and id, usually from a reserved block and so without a query. */
export type MessagePlaces = {
  /**
   * Takes a place for a message that is accepted now.
   * @param from start of the record's retention, if later than now; milliseconds since the epoch.
   * @throws AppError `dependency_unavailable` when a new block is needed and cannot be reserved.
   */
  readonly take: (retentionDays: number, from?: number) => Promise<NewPlace>;
  /** Drops the reserved blocks: the database refused the day computed from their clock. */
  readonly drop: () => void;
};

export type MessagePlacesDeps = {
  readonly reserve: () => Promise<SeqBlock>;
  readonly loadIds: LoadIds;
  readonly monotonicMs?: MonotonicClock;
};

/** Reserved numbers, and the database's clock at the time of the reservation. */
type Block = {
  nextSeq: number;
  readonly endSeq: number;
  readonly databaseTime: number;
  readonly askedAt: number;
};

/** After this age a block is replaced in the background, because the database's clock may have been changed. */
const FRESH_MS = 30_000;
/** After this age a block is not used any more. */
const USABLE_MS = 600_000;

export function createMessagePlaces(deps: MessagePlacesDeps): MessagePlaces {
  const { reserve, loadIds, monotonicMs = () => performance.now() } = deps;
  let current: Block | undefined;
  let spare: Block | undefined;
  let reserving: Promise<void> | undefined;

  const ageOf = (block: Block): number => monotonicMs() - block.askedAt;
  const leftIn = (block: Block | undefined): number =>
    block === undefined ? 0 : block.endSeq - block.nextSeq;

  /** Runs one reservation at a time, shared by all callers. */
  function refill(): Promise<void> {
    // Read before the query, so that the estimate of the database's clock is never behind and only slightly ahead.
    const askedAt = monotonicMs();
    reserving ??= reserve()
      .then(({ firstSeq, now: time }) => {
        const endSeq = firstSeq + SEQS_PER_BLOCK;
        spare = { nextSeq: firstSeq, endSeq, databaseTime: time.getTime(), askedAt };
      })
      .finally(() => {
        reserving = undefined;
      });
    return reserving;
  }

  /** Returns the block to take from, if any. Reserves the next one before it is needed. */
  function usableBlock(): Block | undefined {
    if (
      spare !== undefined &&
      (current === undefined || leftIn(current) === 0 || ageOf(current) > FRESH_MS)
    ) {
      current = spare;
      spare = undefined;
    }
    const block =
      current !== undefined && leftIn(current) > 0 && ageOf(current) < USABLE_MS ? current : undefined;
    if (block === undefined) return undefined;
    const isRunningOut = leftIn(block) <= SEQS_PER_BLOCK / 2 || ageOf(block) > FRESH_MS;
    // The error is ignored here: a request that finds no number left reserves again and gets the error.
    if (isRunningOut && spare === undefined) refill().catch(() => {});
    return block;
  }

  return {
    async take(retentionDays, from = Number.NEGATIVE_INFINITY) {
      try {
        const { messages: ids } = await loadIds();
        let block = usableBlock();
        while (block === undefined) {
          await refill();
          block = usableBlock();
        }
        const seq = block.nextSeq++;
        const place = {
          seq,
          purgeOn: purgeDay(Math.max(block.databaseTime + ageOf(block), from), retentionDays),
        };
        return { ...place, id: ids.encode(place) };
      } catch (error) {
        throw unavailable(error);
      }
    },
    drop() {
      current = undefined;
      spare = undefined;
    },
  };
}
