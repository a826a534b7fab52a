import type { MonotonicClock } from '#core/domain/clock.ts';

/** How far tenants' feeds are matched for endpoints that no recent event matched, beyond the stored position. */
export type MatchedPositions = {
  readonly of: (endpoint: StoredPosition) => number;
  /** Notes a position. @returns whether it is time to store it. */
  note(endpoint: StoredPosition, upto: number): boolean;
  forget(endpointId: string): void;
};

export type StoredPosition = {
  readonly id: string;
  readonly version: number;
  readonly matchedTo: number;
  /** The start time of the database server that returned `matchedTo`. */
  readonly server: number;
};

/** Maximum number of endpoints remembered. */
const ENDPOINTS_MAX = 20_000;
/** How many events without a match may have to be matched again after a crash. */
const STORED_AFTER_EVENTS = 1_000;
const STORED_AFTER_MS = 30_000;

/** Remembers how far tenants' feeds are matched for endpoints that no recent event matched, beyond the stored position. */
export function createMatchedPositions(
  monotonicMs: MonotonicClock = () => performance.now(),
): MatchedPositions {
  const passed = new Map<string, StoredPosition & { upto: number; readonly since: number }>();

  /**
   * An entry is invalid once another worker has stored a position or the filters have changed, and after a failover: the new
   * server may have lost the end of the feed and give its numbers to other events.
   */
  const known = ({ id, version, matchedTo, server }: StoredPosition) => {
    const entry = passed.get(id);
    const isKnown = entry?.version === version && entry.matchedTo === matchedTo && entry.server === server;
    return isKnown ? entry : undefined;
  };

  return {
    of: (endpoint) => known(endpoint)?.upto ?? endpoint.matchedTo,
    note(endpoint, upto) {
      const { id, version, matchedTo, server } = endpoint;
      if (upto === matchedTo) return false;
      const since = known(endpoint)?.since ?? monotonicMs();
      if (passed.size >= ENDPOINTS_MAX) passed.clear();
      passed.set(id, { id, version, matchedTo, server, upto, since });
      return upto - matchedTo >= STORED_AFTER_EVENTS || monotonicMs() - since >= STORED_AFTER_MS;
    },
    forget: (id) => void passed.delete(id),
  };
}
