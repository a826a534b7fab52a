/** What a provider said when it was asked about one message. */
export type LookupResult =
  /** `isFinal`: it will say nothing else later. */
  | { readonly kind: 'answered'; readonly isFinal: boolean }
  /** It does not know the message, or not yet. */
  | { readonly kind: 'not_found' }
  /** It cannot be asked about this message, now or later. */
  | { readonly kind: 'unanswerable' }
  /** The account's credential may not ask, whatever else it may. */
  | { readonly kind: 'forbidden' }
  /** It did not answer, or not about the message. `retryAfterMs` is its own wish. */
  | { readonly kind: 'unanswered'; readonly isThrottled?: boolean; readonly retryAfterMs?: number };

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

/** For so long an account is asked nothing, and why; and how often in a row it has not answered. */
export type LookupPause = {
  readonly failures: number;
  readonly pauseMs: number;
  readonly reason: 'unanswered' | 'forbidden' | 'throttled' | null;
};

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
/** Somebody has to give the account another key. */
const FORBIDDEN_MS_MIN = 3_600_000;
const FORBIDDEN_MS_MAX = 12 * 3_600_000;
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
    case 'forbidden':
      return { kind: 'again', ms: doubled(FORBIDDEN_MS_MIN, asks - 1, FORBIDDEN_MS_MAX) };
    case 'unanswered': {
      const ms = doubled(AGAIN_MS_MIN, asks - 1, UNANSWERED_MS_MAX);
      return { kind: 'again', ms: Math.max(ms, result.retryAfterMs ?? 0) };
    }
  }
}

/**
 * Decides about the account that these questions were asked of at once. One that leaves most of them without an answer
 * pauses, longer each time. Its own wish is respected in any case, and one answer tells that it is asked too often.
 * @param failures how often in a row it has not answered before.
 */
export function decidePause(results: readonly LookupResult[], failures: number): LookupPause {
  const counted = (...kinds: LookupResult['kind'][]): number =>
    results.filter(({ kind }) => kinds.includes(kind)).length;
  const answers = counted('answered', 'not_found');
  const forbidden = counted('forbidden');
  const unanswered = counted('unanswered');
  const { wishMs, isThrottled } = wishOf(results);
  if (forbidden + unanswered <= answers) {
    const pauseMs = Math.max(wishMs, isThrottled ? PAUSE_MS_MIN : 0);
    const reason = pauseMs === 0 ? null : isThrottled ? 'throttled' : 'unanswered';
    return { failures: answers > 0 ? 0 : failures, pauseMs, reason };
  }
  const isForbidden = forbidden > unanswered;
  const pauseMs = isForbidden
    ? doubled(FORBIDDEN_MS_MIN, failures, FORBIDDEN_MS_MAX)
    : doubled(PAUSE_MS_MIN, failures, PAUSE_MS_MAX);
  return {
    failures: Math.min(failures + 1, FAILURES_MAX),
    pauseMs: Math.max(pauseMs, wishMs),
    reason: isForbidden ? 'forbidden' : isThrottled ? 'throttled' : 'unanswered',
  };
}

function wishOf(results: readonly LookupResult[]): {
  readonly wishMs: number;
  readonly isThrottled: boolean;
} {
  const unanswered = results.filter((one) => one.kind === 'unanswered');
  return {
    wishMs: Math.max(0, ...unanswered.map(({ retryAfterMs = 0 }) => retryAfterMs)),
    isThrottled: unanswered.some((one) => one.isThrottled === true),
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
