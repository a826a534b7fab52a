/** Until a full minute's worth is free again: the window's 60 seconds and the one that is under way. */
const WINDOW_S = 61;

export function rateHeaders(rate: {
  readonly limit: number;
  readonly remaining: number;
  readonly passed: boolean;
  readonly retryAfter: number;
}): Record<string, string> {
  return {
    'ratelimit-limit': String(rate.limit),
    'ratelimit-remaining': String(rate.remaining),
    'ratelimit-reset': String(rate.passed ? WINDOW_S : rate.retryAfter),
  };
}
