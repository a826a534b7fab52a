import { HOUR_MS } from '../text/duration.ts';

/** The provider's answer to a lookup of one message. */
export type LookupResult =
  /** `isFinal`: the provider will report nothing else later. */
  | { readonly kind: 'answered'; readonly isFinal: boolean }
  /** The provider does not know the message, or not yet. */
  | { readonly kind: 'not_found' }
  /** The provider cannot be asked about this message, now or later. */
  | { readonly kind: 'unanswerable' }
  /** The account's credential has no permission for lookups, whatever else it may do. */
  | { readonly kind: 'forbidden' }
  /** The provider did not answer, or not about the message. `retryAfterMs`: the wait that it requested. */
  | { readonly kind: 'unanswered'; readonly isThrottled?: boolean; readonly retryAfterMs?: number };

export type AskedMessage = {
  /** Time since the provider accepted the message, or may have, in milliseconds. */
  readonly ageMs: number;
  /** Lookups of the message so far, including this one. */
  readonly asks: number;
};

export type LookupDecision =
  /** The message needs no further lookup. */
  | { readonly kind: 'done' }
  | { readonly kind: 'again'; readonly ms: number }
  /** No further lookup; the message waits for its receipt timeout. */
  | { readonly kind: 'wait' };

/** How long an account is not asked, why, and how many consecutive times it has not answered. */
export type LookupPause = {
  readonly failures: number;
  readonly pauseMs: number;
  readonly reason: 'unanswered' | 'forbidden' | 'throttled' | null;
};

/** Most receipts arrive within minutes. A message is looked up after this much silence. */
export const FIRST_LOOKUP_MS = HOUR_MS;
/** Wait after an ambiguous call: time for a vendor that is slow, and for its search index. */
export const AMBIGUOUS_LOOKUP_MS = 60_000;
/** The last lookup is made well before the wait for a receipt ends. */
export const LAST_LOOKUP_MS = 71 * HOUR_MS;

const AGAIN_MS_MIN = 60_000;
/** A message is looked up again at three times its age: about eight lookups in three days at most. */
const AGE_FACTOR = 3;
/** An unanswered lookup is repeated after a minute, then with exponential backoff. */
const UNANSWERED_MS_MAX = 6 * HOUR_MS;
const PAUSE_MS_MIN = 60_000;
const PAUSE_MS_MAX = HOUR_MS;
/** A person must replace the account's credential, so the pause is long. */
const FORBIDDEN_MS_MIN = HOUR_MS;
const FORBIDDEN_MS_MAX = 12 * HOUR_MS;
const FAILURES_MAX = 15;

/** Decides whether and when a message is looked up again. */
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
 * Decides about a pause of the account after a batch of lookups. An account that leaves most of them unanswered pauses, longer
 * each time. A requested wait is always respected, and one throttled answer is enough for a pause.
 * @param failures number of consecutive batches before this one that the account did not answer.
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
