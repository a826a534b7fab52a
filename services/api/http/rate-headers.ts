/** Until the full limit is available again: the 60 seconds of the window plus the current second. */
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
