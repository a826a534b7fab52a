import { unavailable } from '#core/domain/app-error.ts';
import type { MessageId } from '#core/domain/ids.ts';
import type { MessagePlace } from '#core/domain/message-id.ts';
import { purgeDay } from '#core/domain/purge-day.ts';
import { SEQS_PER_BLOCK, type SeqBlock } from '#core/store/message-places.ts';
import type { LoadIds } from '#core/domain/id-loader.ts';

export type NewPlace = MessagePlace & { readonly id: MessageId };

/** Gives each new message its place and its id, mostly out of a reserved block and so without a query. */
export type MessagePlaces = {
  /**
   * For a message that is accepted now.
   * @param from milliseconds since the epoch: its record is kept from then on, where that is later.
   * @throws AppError `dependency_unavailable` where numbers have to be reserved and cannot be.
   */
  readonly take: (retentionDays: number, from?: number) => Promise<NewPlace>;
  /** Drops the reserved blocks: the database refused the day that their clock gave. */
  readonly drop: () => void;
};

export type MessagePlacesDeps = {
  readonly reserve: () => Promise<SeqBlock>;
  readonly loadIds: LoadIds;
  /** Milliseconds of a clock that never goes back. */
  readonly now?: () => number;
};

/** Reserved numbers, and the database's clock when they were reserved. */
type Block = {
  nextSeq: number;
  readonly endSeq: number;
  readonly databaseTime: number;
  readonly askedAt: number;
};

/** Then a block is replaced in the background: the database's clock may have been set anew. */
const FRESH_MS = 30_000;
/** Then it is not used any more. */
const USABLE_MS = 600_000;

export function createMessagePlaces(deps: MessagePlacesDeps): MessagePlaces {
  const { reserve, loadIds, now = () => performance.now() } = deps;
  let current: Block | undefined;
  let spare: Block | undefined;
  let reserving: Promise<void> | undefined;

  const ageOf = (block: Block): number => now() - block.askedAt;
  const leftIn = (block: Block | undefined): number =>
    block === undefined ? 0 : block.endSeq - block.nextSeq;

  /** One reservation at a time, however many wait for it. */
  function refill(): Promise<void> {
    // Taken before the query, so that the database's clock as estimated here is never behind, and a little ahead at most.
    const askedAt = now();
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

  /** The block to take from, if there is one. Reserves the next before it is needed. */
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
    // A request that finds no number left reserves again, and gets the error.
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
