import type { StoredEvent } from '#core/domain/webhooks/stored-event.ts';
import type { EndpointFilters } from '#core/domain/webhooks/webhook-endpoint.ts';
import type { EventRow } from './feed.ts';
import type { StoredPosition } from './matched-positions.ts';

/** An event with the row that it was read from. */
export type FeedEvent<Row extends EventRow = EventRow> = { readonly row: Row; readonly event: StoredEvent };

/** An endpoint with how far its tenant's feed is matched for it, as stored. */
export type MatchedEndpoint = EndpointFilters &
  StoredPosition & {
    readonly tenantId: string;
    /** Whether rows inserted for it may be claimed at once. */
    readonly ready: boolean;
  };

export type MatchedTenant = { readonly id: string; readonly endpoints: readonly MatchedEndpoint[] };

/** The next events of a tenant's feed. */
export type FeedStretch = {
  readonly events: readonly FeedEvent[];
  /** The last number that was read. */
  readonly end: number;
  /** Whether there may be more. */
  readonly isCut: boolean;
};

/** Events to append to an endpoint's feed. Without events only the matched position advances. */
export type AppendRequest = {
  readonly endpoint: MatchedEndpoint;
  readonly upto: number;
  readonly passed: readonly FeedEvent[];
  readonly isClaimable: boolean;
};

export type MatchTenantTerms = {
  /** How far the tenant's feed is matched for the endpoint, as this process knows. */
  readonly reachedOf: (endpoint: MatchedEndpoint) => number;
  readonly match: (endpoint: EndpointFilters, event: StoredEvent) => boolean;
  /** Endpoints, and tenants, that take no further claim now. */
  readonly busy: readonly string[];
};

/** Matched events of a tenant in one turn, give or take those of one endpoint. */
export const MATCHES_OF_TENANT = 2_000;

/**
 * Matches the events that were read of a tenant's feed with the tenant's endpoints, those that are furthest behind first.
 * `isCut`: endpoints are left for the tenant's next turn, so that many of them do not delay other tenants.
 */
export function matchTenant(
  { id, endpoints }: MatchedTenant,
  read: FeedStretch,
  { reachedOf, match, busy }: MatchTenantTerms,
): { readonly requests: readonly AppendRequest[]; readonly isCut: boolean } {
  const isTenantBusy = busy.includes(id);
  const requests: AppendRequest[] = [];
  let matches = 0;
  const byReached = endpoints.map((endpoint) => ({ endpoint, reached: reachedOf(endpoint) }));
  for (const { endpoint, reached } of byReached.toSorted((a, b) => a.reached - b.reached)) {
    if (matches >= MATCHES_OF_TENANT) return { requests, isCut: true };
    const passed = read.events.filter(({ event }) => event.seq > reached && match(endpoint, event));
    matches += passed.length;
    requests.push({
      endpoint,
      upto: Math.max(reached, read.end),
      passed,
      isClaimable: endpoint.ready && !isTenantBusy && !busy.includes(endpoint.id),
    });
  }
  return { requests, isCut: false };
}
