import type { MonotonicClock } from '#core/domain/clock.ts';
import { dutyRestMs } from '#core/domain/queue/duty-cycle.ts';
import { shareAnswer } from '../process/share-answer.ts';

/** In milliseconds, so that a gauge is back soon after an outage, in which each read takes as long as its timeout. */
const FAILURE_KEPT_MS_MAX = 60_000;

/**
 * Returns a `read` that repeats at the earliest after fifty times its own duration, and after a failure within a minute. Until
 * then it returns the last result or failure, so that scrapes cause no load, however slow the read is and however often they ask.
 * A single slow read counts as long as the one before it: the first one after an outage often is slow, and for minutes its result
 * would tell alerts of a delay that has ended.
 */
export function paced<T>(read: () => Promise<T>, monotonicMs?: MonotonicClock): () => Promise<T> {
  let lastTookMs = Number.POSITIVE_INFINITY;
  return shareAnswer(
    read,
    ({ tookMs, isFailed }) => {
      if (isFailed) return Math.min(dutyRestMs(tookMs), FAILURE_KEPT_MS_MAX);
      const shorterMs = Math.min(tookMs, lastTookMs);
      lastTookMs = tookMs;
      return dutyRestMs(shorterMs);
    },
    monotonicMs,
  );
}
