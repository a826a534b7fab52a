/** Work that can wait, such as surplus receipts or events for endpoints. */
export type SideWork = {
  /** Its duration in milliseconds. */
  readonly tookMs: number;
  /** Whether messages are being sent, or were a moment ago. */
  readonly isSending: boolean;
  /** The longest time that one of its items had waited, in milliseconds, or `batchWaitMs`. */
  readonly waitedMs: number;
  readonly kind: keyof typeof REST;
};

/** How long an item of side work had waited when its turn came. */
export type Wait = {
  readonly ms: number;
  /** Whether it may have waited for its endpoint, which has a rate limit or wants its events in order, not for workers alone. */
  readonly isPaced: boolean;
};

/**
 * How long such work rests while messages are sent, as a multiple of the time that it took: receipts get a fifth of the time, events
 * for endpoints a third. Surplus receipts come in storms and few wait for them; a tenant's systems wait for its events.
 */
const REST = { receipts: 4, events: 2 } as const;
/** Maximum rest: a very long batch says more about the database than about the next batch. */
const REST_MS_MAX = 1_000;
/** Up to this lateness the work rests for the whole multiple. */
const PATIENCE_MS = 15_000;
/**
 * From this lateness on the work gets all of the time, because it arrives for as long as messages are sent and must not fall
 * behind forever.
 */
const LATE_MS = 60_000;

/** Returns how long the database and this process are left to messages before the next work of this kind, in milliseconds. */
export function restBesideSendsMs({ tookMs, isSending, waitedMs, kind }: SideWork): number {
  if (!isSending) return 0;
  const lateness = (waitedMs - PATIENCE_MS) / (LATE_MS - PATIENCE_MS);
  const rest = REST[kind] * (1 - Math.min(1, Math.max(0, lateness)));
  return Math.min(REST_MS_MAX, Math.max(0, tookMs) * rest);
}

/**
 * Extends a rest by that after another piece of work.
 * @param restUntil by the monotonic clock: when the present rest ends, or an earlier one has ended.
 * @returns when the rest ends now: at most a second from `monotonicNow`, however many pieces it follows.
 */
export function extendRest(restUntil: number, monotonicNow: number, work: SideWork): number {
  return Math.min(Math.max(restUntil, monotonicNow) + restBesideSendsMs(work), monotonicNow + REST_MS_MAX);
}

/**
 * Returns for how long a batch counts as having waited, in milliseconds: for as long as any item that workers alone kept waiting. A
 * paced item counts for its own part of the batch: it may be late because of its endpoint for ever, and must not lift the rest of
 * other work. But a backlog of paced items alone gets all of the time when it is late.
 */
export function batchWaitMs(waits: readonly Wait[]): number {
  let longest = 0;
  let pacedParts = 0;
  for (const { ms, isPaced } of waits) {
    if (!isPaced) longest = Math.max(longest, ms);
    // Within these bounds the rest is proportional to the wait.
    pacedParts += Math.min(LATE_MS, Math.max(PATIENCE_MS, isPaced ? ms : 0)) / waits.length;
  }
  return Math.max(longest, pacedParts);
}
