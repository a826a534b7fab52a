/** Endpoints that are remembered. */
const ENDPOINTS_MAX = 20_000;
/** How much of a feed is matched again at most after a crash where nothing of it passed. */
const STORED_AFTER_EVENTS = 1_000;
const STORED_AFTER_MS = 30_000;

type Endpoint = {
  readonly id: string;
  readonly version: number;
  readonly matchedTo: number;
  /** Which start of a database server has said so. */
  readonly server: number;
};

/** How far tenants' feeds are matched for endpoints that nothing of it has passed for, beyond what is stored of that. */
export function matchedPositions(now: () => number = () => performance.now()) {
  const passed = new Map<string, Endpoint & { upto: number; readonly since: number }>();

  /**
   * What another worker has stored since, or other filters, make it worth nothing; and so does another server: one that has
   * taken over may have lost the end of the feed, and gives its numbers to other events.
   */
  const known = ({ id, version, matchedTo, server }: Endpoint) => {
    const entry = passed.get(id);
    const isKnown = entry?.version === version && entry.matchedTo === matchedTo && entry.server === server;
    return isKnown ? entry : undefined;
  };

  return {
    of: (endpoint: Endpoint): number => known(endpoint)?.upto ?? endpoint.matchedTo,
    /** @returns whether it is time to store it. */
    note(endpoint: Endpoint, upto: number): boolean {
      const { id, version, matchedTo, server } = endpoint;
      if (upto === matchedTo) return false;
      const since = known(endpoint)?.since ?? now();
      if (passed.size >= ENDPOINTS_MAX) passed.clear();
      passed.set(id, { id, version, matchedTo, server, upto, since });
      return upto - matchedTo >= STORED_AFTER_EVENTS || now() - since >= STORED_AFTER_MS;
    },
    forget: (id: string): void => void passed.delete(id),
  };
}
