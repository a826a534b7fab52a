import { moveEndpoint, type EndpointHealth } from './endpoint-state.ts';

/** A call to an endpoint that has ended. */
export type EndpointCall = {
  /** When, in milliseconds since the epoch. */
  readonly at: number;
  readonly succeeded: boolean;
  /** Of the answer; null where none came. */
  readonly status: number | null;
  /** For how long the answer asked to be left alone, in milliseconds. */
  readonly retryAfterMs?: number | undefined;
  /** It was begun while the endpoint failed, as the only one. */
  readonly isProbe: boolean;
};

/** So many failures in a row are no accident. */
export const FAILURES_UNTIL_FAILING = 4;
export const FAILING_MS_MAX = 5 * 24 * 60 * 60_000;
/** Longest wait that an answer may ask for. */
export const RETRY_AFTER_MS_MAX = 60 * 60_000;
const PROBE_MS_MIN = 5_000;
const PROBE_MS_MAX = 5 * 60_000;
const JITTER = 0.2;
const GONE = 410;

/**
 * What a call says about its endpoint: a success makes it active, four failures in a row failing, five days of nothing else
 * disabled, and so does a 410 at once. What a person has paused, or what is disabled, stays so. The moves are those of the table.
 * @param random uniform in [0, 1).
 * @returns `health` itself where it says nothing new.
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
  // Calls that were under way when the others failed tell nothing new: neither do they make the next probe later.
  if (health.status === 'failing' && !call.isProbe) return health;
  const failures = health.failures + 1;
  const askedMs = Math.min(call.retryAfterMs ?? 0, RETRY_AFTER_MS_MAX);
  if (failures < FAILURES_UNTIL_FAILING && health.status === 'active')
    return moveEndpoint(health, 'count', at, askedMs > 0 ? new Date(at + askedMs) : null);
  if (at - (health.failingSince?.getTime() ?? at) >= FAILING_MS_MAX)
    return moveEndpoint(health, 'give_up', at);
  const callAt = new Date(at + Math.max(askedMs, probeDelayMs(failures, random)));
  return moveEndpoint(health, health.status === 'failing' ? 'fail_again' : 'fail', at, callAt);
}

/** Twice as long each time, from five seconds to five minutes. */
function probeDelayMs(failures: number, random: number): number {
  const doublings = Math.max(0, Math.min(failures - FAILURES_UNTIL_FAILING, 16));
  const delay = PROBE_MS_MIN * 2 ** doublings * (1 - JITTER + 2 * JITTER * random);
  return Math.round(Math.min(PROBE_MS_MAX, Math.max(PROBE_MS_MIN, delay)));
}
