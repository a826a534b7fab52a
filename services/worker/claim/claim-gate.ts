/** Whether this process may claim now: how many claims it has under way, and what it waits for. */
export type ClaimGate = {
  /**
   * False while a claim has to wait; `onReady` is called when waiting helped.
   * @param free places that the claim could fill. @param claimsMax claims at once.
   */
  admits(free: number, claimsMax: number): boolean;
  begin(): void;
  end(): void;
  /** The database has failed: no claim for a moment. */
  pause(): void;
  readonly underWay: number;
};

const PAUSE_MS = 500;
/** How long a worker whose places are mostly taken waits for more of them to become free. */
const GATHER_MS = 5;

/** @param crowdedBelow fewer free places than this mean that most are taken. */
export function createClaimGate(crowdedBelow: number, onReady: () => void): ClaimGate {
  let underWay = 0;
  let pausedUntil = 0;
  let hasGathered = false;
  let timer: NodeJS.Timeout | undefined;

  function wait(ms: number, isGathering: boolean): false {
    timer ??= setTimeout(() => {
      timer = undefined;
      hasGathered = isGathering;
      onReady();
    }, ms);
    return false;
  }

  return {
    admits(free, claimsMax) {
      if (underWay >= claimsMax || free < 1) return false;
      const pauseMs = pausedUntil - performance.now();
      if (pauseMs > 0) return wait(pauseMs, false);
      // One claim of many costs the database far less than many of one.
      if (free < crowdedBelow && !hasGathered) return wait(GATHER_MS, true);
      hasGathered = false;
      return true;
    },
    begin: () => void underWay++,
    end: () => void underWay--,
    pause() {
      pausedUntil = performance.now() + PAUSE_MS;
    },
    get underWay() {
      return underWay;
    },
  };
}
