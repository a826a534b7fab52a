/** Limits the claims of this process: how many run at once, and how soon one follows another. */
export type ClaimLimiter = {
  /**
   * Whether a claim may begin now. If it has to wait for time to pass, `onReady` is called then.
   * @param size messages that the claim could take. @param claimsMax claims at once.
   */
  admits(size: number, claimsMax: number): boolean;
  begin(): void;
  end(): void;
  /** The database has failed: no claim for a moment. */
  pause(): void;
  readonly underWay: number;
};

const PAUSE_MS = 500;
/** The least time between small claims: one claim of many messages costs the database far less than many of one. */
const GATHER_MS = 3;

/** @param enough a claim of so many messages does not wait for more. */
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
