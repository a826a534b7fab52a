import { LRUCache } from 'lru-cache';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { Lane, LanePlaces, WaitingPageSize, WaitingRow } from '#core/store/sending/lane.ts';
import type { DueLooks } from './due-looks.ts';
import { laneKey } from './lanes.ts';

/** Reads lanes for messages that no claim takes: expired ones, and attempts of dead workers. */
export type LaneReviews = {
  /** Whether the next page of the lane is to be read now. If so, it is not due again for a while. */
  isDue(lane: Lane): boolean;
  /** Whether pages of the lane are left to be read. */
  isUnderWay(lane: Lane): boolean;
  /** Reads the next page. */
  readPage(lane: Lane): Promise<readonly WaitingRow[]>;
};

/** Time between two reviews of a lane that has more due than can be sent. */
const REVIEW_MS = 5_000;
/** Time between two pages of one review: a lane of a million messages is read within minutes. */
const REVIEW_PAGE_MS = 2_000;
const REVIEWED_MAX = 20_000;
/** Bounds of one page, for each priority. Reading a lane of a million at once would exceed a query's deadline. */
export const REVIEW_PAGE: WaitingPageSize = { most: 200, readsMax: 10_000 };

export function createLaneReviews(deps: {
  readonly store: Pick<WorkerStore, 'findWaitingDue'>;
  readonly dueFrom: DueLooks['dueFrom'];
}): LaneReviews {
  /** Times of the next reviews of deep lanes that were reviewed recently, by `performance.now()`. */
  const nextReviews = new LRUCache<string, number>({ max: REVIEWED_MAX });
  /** Where the next page of a partly read lane begins. If the cache drops it, the review starts from the beginning. */
  const places = new LRUCache<string, LanePlaces>({ max: REVIEWED_MAX });

  return {
    isDue(lane) {
      const now = performance.now();
      if ((nextReviews.get(laneKey(lane)) ?? 0) > now) return false;
      nextReviews.set(laneKey(lane), now + REVIEW_MS);
      return true;
    },
    isUnderWay: (lane) => places.has(laneKey(lane)),
    async readPage({ tenantId, accountId }) {
      const lane = { tenantId, accountId };
      const key = laneKey(lane);
      const searched = { ...lane, dueFrom: deps.dueFrom(lane) };
      const { rows, next } = await deps.store.findWaitingDue(searched, REVIEW_PAGE, places.get(key));
      if (next === undefined) places.delete(key);
      else {
        places.set(key, next);
        nextReviews.set(key, performance.now() + REVIEW_PAGE_MS);
      }
      return rows;
    },
  };
}
