import { moveEndpoint, type EndpointHealth } from './endpoint-state.ts';

/** A finished call to an endpoint. */
export type EndpointCall = {
  /** When this is decided, in milliseconds since the epoch, by the clock that all workers share: Postgres's. */
  readonly at: number;
  readonly succeeded: boolean;
  /** HTTP status of the answer; null if none arrived. */
  readonly status: number | null;
  /** The wait that the answer requested, in milliseconds. */
  readonly retryAfterMs?: number | undefined;
  /** Whether it was the single probe of a failing endpoint. */
  readonly isProbe: boolean;
  /** Only for a probe: when its lease ends, by the same clock; null if that is unknown. */
  readonly probeUntil?: Date | null | undefined;
};

/** This many consecutive failures are no coincidence. */
export const FAILURES_UNTIL_FAILING = 4;
export const FAILING_MS_MAX = 5 * 24 * 60 * 60_000;
/** Maximum wait that an answer may request. */
export const RETRY_AFTER_MS_MAX = 60 * 60_000;
const PROBE_MS_MIN = 5_000;
const PROBE_MS_MAX = 5 * 60_000;
const JITTER = 0.2;
const GONE = 410;

/**
 * Returns the endpoint's health after a call: a success makes it active, four consecutive failures make it failing, and five days
 * of failed probes, or a 410 at once, disable it. `paused` and `disabled` do not change. The moves are those of `ENDPOINT_MOVES`.
 * @param random uniform in [0, 1).
 * @returns `health` itself if nothing changes.
 */
export function decideHealth(health: EndpointHealth, call: EndpointCall, random: number): EndpointHealth {
  if (health.status === 'paused' || health.status === 'disabled') return health;
  return call.succeeded ? afterSuccess(health, call) : afterFailure(health, call, random);
}

function afterSuccess(health: EndpointHealth, { at }: EndpointCall): EndpointHealth {
  if (health.status === 'failing') return moveEndpoint(health, 'recover', at);
  return health.failures === 0 ? health : moveEndpoint(health, 'clear', at);
}

function afterFailure(health: EndpointHealth, call: EndpointCall, random: number): EndpointHealth {
  const { at, status } = call;
  if (status === GONE) return moveEndpoint(health, 'be_gone', at);
  const askedMs = Math.min(call.retryAfterMs ?? 0, RETRY_AFTER_MS_MAX);
  // Another answer may have asked for a longer wait.
  const later = (callAt: number): Date => new Date(Math.max(callAt, health.callAt?.getTime() ?? 0));
  // Calls that were under way when the endpoint became failing add nothing new but the wait that they ask for. `callAt` may be the
  // end of a probe's lease. It is put off in any case, because the end of the probe would not tell it from that: a wait that ends
  // earlier lasts until then.
  if (health.status === 'failing' && !call.isProbe) {
    if (askedMs === 0) return health;
    const past = (health.callAt?.getTime() ?? 0) + 1;
    return moveEndpoint(health, 'wait', at, new Date(Math.max(at + askedMs, past)));
  }
  const failures = health.failures + 1;
  if (failures < FAILURES_UNTIL_FAILING && health.status === 'active')
    return moveEndpoint(health, 'count', at, askedMs > 0 ? later(at + askedMs) : null);
  const callAt = at + Math.max(askedMs, probeDelayMs(failures, random));
  if (health.status === 'active') return moveEndpoint(health, 'fail', at, later(callAt));
  if (at - (health.failingSince?.getTime() ?? at) >= FAILING_MS_MAX)
    return moveEndpoint(health, 'give_up', at);
  // Until now `callAt` is the end of the probe's lease, or a later instant because the answer to another call has asked for a wait.
  const isAsked = (health.callAt?.getTime() ?? 0) > (call.probeUntil?.getTime() ?? Infinity);
  return moveEndpoint(health, 'fail_again', at, isAsked ? later(callAt) : new Date(callAt));
}

/** Returns the delay of the next probe: exponential backoff from five seconds to five minutes. */
function probeDelayMs(failures: number, random: number): number {
  const doublings = Math.max(0, Math.min(failures - FAILURES_UNTIL_FAILING, 16));
  const delay = PROBE_MS_MIN * 2 ** doublings * (1 - JITTER + 2 * JITTER * random);
  return Math.round(Math.min(PROBE_MS_MAX, Math.max(PROBE_MS_MIN, delay)));
}
