import type { Lane } from '#core/store/sending/lane.ts';
import { laneKey } from './lanes.ts';

export type ClosedLanesDeps = {
  /**
   * Ends or moves messages of the lane that no claim takes.
   * @returns whether the review was due.
   */
  readonly review: (lane: Lane) => Promise<boolean>;
  readonly isStopping: () => boolean;
};

/** Reviews lanes that are not claimed from, because their account cannot be called: their messages expire nevertheless. */
export type ClosedLanes = {
  /** Adds a lane in which something is due and that is not being claimed from. */
  add(lane: Lane): void;
  /** Reviews added lanes, those that have waited longest first. What is left over is reviewed by the next runs. */
  run(): Promise<void>;
};

/** The most lanes that one run reviews: a worker may have thousands of closed lanes, and a review reads thousands of rows. */
const REVIEWS_MAX = 20;

export function createClosedLanes({ review, isStopping }: ClosedLanesDeps): ClosedLanes {
  const added = new Map<string, Lane>();
  return {
    add: (lane) => void added.set(laneKey(lane), lane),
    async run() {
      let reviewed = 0;
      for (const [key, lane] of added) {
        if (isStopping() || reviewed === REVIEWS_MAX) return;
        added.delete(key);
        if (await review(lane)) reviewed += 1;
      }
    },
  };
}
