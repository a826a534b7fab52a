/** What a provider said when it was asked about one message. */
export type LookupResult =
  /** `isFinal`: it will say nothing else later. */
  | { readonly kind: 'answered'; readonly isFinal: boolean }
  /** It does not know the message, or not yet. */
  | { readonly kind: 'not_found' }
  /** It cannot be asked about this message, now or later. */
  | { readonly kind: 'unanswerable' }
  /** It did not answer, or not about the message. `retryAfterMs` is its own wish. */
  | { readonly kind: 'unanswered'; readonly retryAfterMs?: number };

export type AskedMessage = {
  /** Since its provider has accepted it, or may have, in milliseconds. */
  readonly ageMs: number;
  /** Questions about it so far, this one included. */
  readonly asks: number;
};

export type LookupDecision =
  /** The message need not be asked about any more. */
  | { readonly kind: 'done' }
  | { readonly kind: 'again'; readonly ms: number }
  /** Only its timeout is waited for. */
  | { readonly kind: 'wait' };

/** For so long an account is asked nothing, and how often in a row it has not answered. */
export type LookupPause = { readonly failures: number; readonly pauseMs: number };

/** Receipts come within minutes, most of them. What is silent for so long is asked about. */
export const FIRST_LOOKUP_MS = 3_600_000;
/** After a call without an answer: time for a vendor that is merely slow, and for its index. */
export const AMBIGUOUS_LOOKUP_MS = 60_000;
/** The last question comes well before the wait for a receipt is over. */
export const LAST_LOOKUP_MS = 71 * 3_600_000;

const AGAIN_MS_MIN = 60_000;
/** A message is asked about again at three times its age: some eight questions in three days at most. */
const AGE_FACTOR = 3;
/** Without an answer it is asked about again after a minute, and each time after twice as long. */
const UNANSWERED_MS_MAX = 6 * 3_600_000;
const PAUSE_MS_MIN = 60_000;
const PAUSE_MS_MAX = 3_600_000;
const FAILURES_MAX = 15;

/** Decides whether and when a message is asked about again. */
export function decideLookup(result: LookupResult, { ageMs, asks }: AskedMessage): LookupDecision {
  switch (result.kind) {
    case 'answered':
      return result.isFinal ? { kind: 'done' } : againByAge(ageMs);
    case 'not_found':
      return againByAge(ageMs);
    case 'unanswerable':
      return { kind: 'wait' };
    case 'unanswered': {
      const ms = doubled(AGAIN_MS_MIN, asks - 1, UNANSWERED_MS_MAX);
      return { kind: 'again', ms: Math.max(ms, result.retryAfterMs ?? 0) };
    }
  }
}

/**
 * Decides about the account that these questions were asked of at once. One whose questions all stay without an answer
 * pauses, longer each time; its own wish is respected in any case.
 * @param failures how often in a row it has not answered before.
 */
export function decidePause(results: readonly LookupResult[], failures: number): LookupPause {
  const unanswered = results.filter((one) => one.kind === 'unanswered');
  const wishMs = Math.max(0, ...unanswered.map(({ retryAfterMs = 0 }) => retryAfterMs));
  if (results.some(({ kind }) => kind === 'answered' || kind === 'not_found'))
    return { failures: 0, pauseMs: wishMs };
  if (unanswered.length === 0) return { failures, pauseMs: 0 };
  return {
    failures: Math.min(failures + 1, FAILURES_MAX),
    pauseMs: Math.max(doubled(PAUSE_MS_MIN, failures, PAUSE_MS_MAX), wishMs),
  };
}

function againByAge(ageMs: number): LookupDecision {
  if (ageMs >= LAST_LOOKUP_MS) return { kind: 'wait' };
  const next = Math.min(Math.max(ageMs, 0) * AGE_FACTOR, LAST_LOOKUP_MS);
  return { kind: 'again', ms: Math.max(Math.round(next - ageMs), AGAIN_MS_MIN) };
}

function doubled(ms: number, times: number, most: number): number {
  return Math.min(ms * 2 ** Math.max(times, 0), most);
}
