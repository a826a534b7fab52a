/** Limits the claims of this process: how many run at once, and the least time between two claims. */
export type ClaimLimiter = {
  /**
   * Returns whether a claim may begin now. If the claim must wait for time to pass, `onReady` is called when the time is over.
   * @param size number of messages that the claim could take.
   * @param claimsMax maximum number of concurrent claims.
   */
  admits(size: number, claimsMax: number): boolean;
  begin(): void;
  end(): void;
  /** Blocks claims for a moment, because the database has failed. */
  pause(): void;
  readonly underWay: number;
};

const PAUSE_MS = 500;
/** Minimum time between small claims: one claim of many messages costs the database far less than many claims of one. */
const GATHER_MS = 3;

/**
 * Creates the limiter.
 * @param enough a claim of at least this many messages does not wait for more.
 */
export function createClaimLimiter(enough: number, onReady: () => void): ClaimLimiter {
  let underWay = 0;
  let pausedUntil = Number.NEGATIVE_INFINITY;
  let begunAt = Number.NEGATIVE_INFINITY;
  let timer: NodeJS.Timeout | undefined;

  function wait(ms: number): false {
    timer ??= setTimeout(() => {
      timer = undefined;
      onReady();
    }, ms);
    return false;
  }

  return {
    admits(size, claimsMax) {
      if (underWay >= claimsMax || size < 1) return false;
      const gatheredAt = size < enough ? begunAt + GATHER_MS : 0;
      const restMs = Math.max(pausedUntil, gatheredAt) - performance.now();
      return restMs > 0 ? wait(restMs) : true;
    },
    begin() {
      underWay++;
      begunAt = performance.now();
    },
    end: () => void underWay--,
    pause() {
      pausedUntil = performance.now() + PAUSE_MS;
    },
    get underWay() {
      return underWay;
    },
  };
}
