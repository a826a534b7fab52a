import type { MonotonicClock } from '#core/domain/clock.ts';

/** Remembers endpoints whose keys could not be loaded, so that their events are not claimed again at once. */
export type KeylessEndpoints = {
  /** The keys could not be loaded. */
  failed(endpointId: string): void;
  /** The keys were loaded, or have changed. */
  forget(endpointId: string): void;
  /** Ids of the endpoints that must still wait. */
  readonly waiting: readonly string[];
};

const WAIT_MS_MIN = 1_000;
const WAIT_MS_MAX = 30_000;
/** Beyond it the one that has waited longest is forgotten: its events are claimed and given back once more. */
const ENDPOINTS_MAX = 2_000;

type Wait = { readonly ms: number; readonly until: number };

/** Creates the memory. Each failure doubles an endpoint's wait, from one to thirty seconds. */
export function createKeylessEndpoints(
  monotonicMs: MonotonicClock = () => performance.now(),
): KeylessEndpoints {
  /** In the order of their last failures. */
  const waits = new Map<string, Wait>();
  return {
    failed(id) {
      const before = waits.get(id);
      const ms = before === undefined ? WAIT_MS_MIN : Math.min(WAIT_MS_MAX, 2 * before.ms);
      waits.delete(id);
      waits.set(id, { ms, until: monotonicMs() + ms });
      const [oldest] = waits.keys();
      if (waits.size > ENDPOINTS_MAX && oldest !== undefined) waits.delete(oldest);
    },
    forget(id) {
      waits.delete(id);
    },
    get waiting() {
      const time = monotonicMs();
      return [...waits].flatMap(([id, { until }]) => (until > time ? [id] : []));
    },
  };
}
