import type { MonotonicClock } from '#core/domain/clock.ts';
import { doubledMs, type DelayBounds } from '#core/platform/process/pause.ts';

/** Remembers endpoints for which something failed in this process, so that their events are not claimed again at once. */
export type EndpointWaits = {
  failed(endpointId: string): void;
  /** It succeeded, or the endpoint has changed. */
  forget(endpointId: string): void;
  /** Ids of the endpoints that must still wait. */
  readonly waiting: readonly string[];
};

/** Beyond it the one that has waited longest is forgotten: its events are claimed once more. */
const ENDPOINTS_MAX = 2_000;

type Wait = { readonly failures: number; readonly until: number };

/** Creates the memory. Each failure doubles an endpoint's wait. */
export function createEndpointWaits(
  bounds: DelayBounds,
  monotonicMs: MonotonicClock = () => performance.now(),
): EndpointWaits {
  /** In the order of their last failures. */
  const waits = new Map<string, Wait>();
  return {
    failed(id) {
      const failures = waits.get(id)?.failures ?? 0;
      waits.delete(id);
      waits.set(id, { failures: failures + 1, until: monotonicMs() + doubledMs(failures, bounds) });
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
