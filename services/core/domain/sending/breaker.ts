/**
 * A circuit breaker per provider account, as a value. It opens at >= 20 calls with >= 50 % provider faults within 60 s, then
 * admits single probes. Recipient errors count as calls without a fault, so a bad recipient list does not open it.
 */
export type Breaker = {
  readonly health: 'healthy' | 'open' | 'probing';
  /** Ring of 6-second buckets, newest last. */
  readonly buckets: readonly Bucket[];
  /** While open: when the next probe may be made, in milliseconds of the caller's clock. */
  readonly probeAt: number;
  /** Consecutive openings without a success between them. */
  readonly openings: number;
};

type Bucket = { readonly at: number; readonly calls: number; readonly faults: number };

export const BREAKER_WINDOW_MS = 60_000;
export const BREAKER_CALLS_MIN = 20;
const BREAKER_FAULT_RATIO = 0.5;
const BUCKET_MS = 6_000;
/** After the first openings; after each further one it is the longest. */
const COOL_DOWN_MS = [5_000, 15_000, 30_000] as const;
const COOL_DOWN_MS_MAX = 60_000;
/** After this time without a result a probe counts as lost, and another one is admitted. */
const PROBE_LOST_MS = 60_000;

export const CLOSED_BREAKER: Breaker = { health: 'healthy', buckets: [], probeAt: 0, openings: 0 };

/** Returns whether a call may be made now; the caller must announce a probe with `startProbe`. */
export function admission(breaker: Breaker, monotonicNow: number): 'pass' | 'probe' | 'blocked' {
  if (breaker.health === 'healthy') return 'pass';
  return monotonicNow >= breaker.probeAt ? 'probe' : 'blocked';
}

export function startProbe(breaker: Breaker, monotonicNow: number): Breaker {
  return { ...breaker, health: 'probing', probeAt: monotonicNow + PROBE_LOST_MS };
}

/** Opens a closed breaker at once, without a sample: the account's credential was refused. */
export function forceOpen(breaker: Breaker, monotonicNow: number): Breaker {
  return breaker.health === 'healthy' ? open(breaker, monotonicNow) : breaker;
}

/**
 * Records one finished call. While the breaker is not closed only a probe decides: the results of calls that began before it
 * opened would lengthen the cool-down, or close it although most calls fail.
 * @param fault a failure of the provider itself, never one of the recipient or the content.
 */
export function note(
  breaker: Breaker,
  { fault, isProbe }: { readonly fault: boolean; readonly isProbe: boolean },
  monotonicNow: number,
): Breaker {
  if (breaker.health !== 'healthy') {
    if (!isProbe) return breaker;
    return fault ? open(breaker, monotonicNow) : CLOSED_BREAKER;
  }
  const start = monotonicNow - (monotonicNow % BUCKET_MS);
  const recent = breaker.buckets.filter((bucket) => bucket.at > monotonicNow - BREAKER_WINDOW_MS);
  const last = recent.at(-1);
  const current = last?.at === start ? last : { at: start, calls: 0, faults: 0 };
  const kept = last?.at === start ? recent.slice(0, -1) : recent;
  const buckets = [
    ...kept,
    { at: start, calls: current.calls + 1, faults: current.faults + (fault ? 1 : 0) },
  ];
  const calls = buckets.reduce((sum, bucket) => sum + bucket.calls, 0);
  const faults = buckets.reduce((sum, bucket) => sum + bucket.faults, 0);
  const next = { ...breaker, buckets };
  return calls >= BREAKER_CALLS_MIN && faults >= calls * BREAKER_FAULT_RATIO
    ? open(next, monotonicNow)
    : next;
}

function open(breaker: Breaker, monotonicNow: number): Breaker {
  const coolDown = COOL_DOWN_MS[breaker.openings] ?? COOL_DOWN_MS_MAX;
  return { health: 'open', buckets: [], probeAt: monotonicNow + coolDown, openings: breaker.openings + 1 };
}
