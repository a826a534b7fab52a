/** Whether this process may claim now: how many claims it has under way, and what it waits for. */
export type ClaimGate = {
  /**
   * False while a claim has to wait; `onReady` is called when waiting helped.
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
/** One claim of many costs the database far less than many of one: small ones are so far apart. */
const GATHER_MS = 3;

/** @param enough a claim that could take so many does not wait for more. */
export function createClaimGate(enough: number, onReady: () => void): ClaimGate {
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
