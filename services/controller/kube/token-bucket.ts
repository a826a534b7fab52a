/** `burst` at once, then `perSecond`. */
export type Rate = { readonly burst: number; readonly perSecond: number };

export type TokenBucket = {
  /** Takes a token if there is one. */
  readonly tryTake: () => boolean;
  /**
   * Takes a token; if there is none, reserves a future one.
   * @returns the wait until then, in milliseconds, at most `waitMsMax`: beyond that, no further token is reserved.
   */
  readonly take: () => number;
};

/** Creates a full bucket. Uses the monotonic clock. @param waitMsMax Default: no bound. */
export function createTokenBucket({ burst, perSecond }: Rate, waitMsMax = Infinity): TokenBucket {
  const leastTokens = (-waitMsMax / 1_000) * perSecond;
  let tokens = burst;
  let filledAt = performance.now();

  const fill = (): void => {
    const now = performance.now();
    tokens = Math.min(burst, tokens + ((now - filledAt) / 1_000) * perSecond);
    filledAt = now;
  };

  return {
    tryTake() {
      fill();
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
    take() {
      fill();
      tokens = Math.max(tokens - 1, leastTokens);
      return tokens >= 0 ? 0 : (-tokens / perSecond) * 1_000;
    },
  };
}
