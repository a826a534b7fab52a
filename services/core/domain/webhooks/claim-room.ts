/** The claims of one endpoint that a worker holds. */
export type HeldClaims = {
  readonly endpointId: string;
  readonly tenantId: string;
  /** Claims that are not recorded. */
  readonly claims: number;
  /** Claims with events that are not begun, and number of these events. */
  readonly waitingClaims: number;
  readonly waitingEvents: number;
  /** Whether nothing more may be claimed from the endpoint before its present claims have ended, or before it can be called. */
  readonly isClosed: boolean;
};

/** Waiting claims: those with events that are not begun, up to a hundred each. */
const WAITING_MAX = 128;
const WAITING_PER_ENDPOINT_MAX = 2;
/** The last waiting claims are only for tenants that have none: several tenants together could otherwise take all. */
const WAITING_RESERVED = 16;
/**
 * All claims that are not recorded: if the database records slowly, no more calls are made than can be recorded within the leases,
 * and the results that wait have a bounded size.
 */
const CLAIMS_MAX = 256;
const CLAIMS_PER_ENDPOINT_MAX = 8;

/** Returns the number of claims that can be taken now. */
export function claimRoom(held: readonly Pick<HeldClaims, 'claims' | 'waitingClaims'>[]): number {
  let claims = 0;
  let waiting = 0;
  for (const one of held) {
    claims += one.claims;
    waiting += one.waitingClaims;
  }
  return Math.max(0, Math.min(WAITING_MAX - waiting, CLAIMS_MAX - claims));
}

/** Returns how many of these one query may take: half, so that tenants which the next query finds have room as well. */
export function queryRoom(room: number): number {
  return Math.ceil(room / 2);
}

/**
 * Returns how many of these one tenant may take, so that the next tenants find room as well.
 * @param tenants number of tenants with claims.
 */
export function tenantRoom(room: number, tenants: number): number {
  // With the tenant itself, and one more.
  return Math.max(1, Math.floor(room / (tenants + 2)));
}

/** Returns the ids of endpoints that must not be claimed from now, because they have enough claims or are closed. */
export function busyEndpoints(held: readonly HeldClaims[]): string[] {
  return held
    .filter(
      ({ isClosed, waitingClaims, claims }) =>
        isClosed || waitingClaims >= WAITING_PER_ENDPOINT_MAX || claims >= CLAIMS_PER_ENDPOINT_MAX,
    )
    .map(({ endpointId }) => endpointId);
}

/**
 * Returns tenants with as many claims or waiting events as each could have if one more tenant came, so that a new tenant always
 * finds capacity. Where little room is left, all that have waiting claims.
 * @param eventsMax number of waiting events of all tenants that can begin in time.
 */
export function tenantsWithTheirShare(
  held: readonly HeldClaims[],
  room: number,
  eventsMax: number,
): string[] {
  const waiting = new Map<string, { claims: number; events: number }>();
  const claimsOf = new Map<string, number>();
  for (const { tenantId, claims, waitingClaims, waitingEvents } of held) {
    claimsOf.set(tenantId, (claimsOf.get(tenantId) ?? 0) + claims);
    if (waitingClaims === 0) continue;
    const before = waiting.get(tenantId) ?? { claims: 0, events: 0 };
    waiting.set(tenantId, { claims: before.claims + waitingClaims, events: before.events + waitingEvents });
  }
  const waitingShare =
    room <= WAITING_RESERVED ? 1 : Math.max(1, Math.floor(WAITING_MAX / (waiting.size + 1)));
  const eventsShare = eventsMax / (waiting.size + 1);
  // One more than the waiting claims of an endpoint, so that these are there while an earlier one is recorded.
  const share = Math.max(WAITING_PER_ENDPOINT_MAX + 1, Math.floor(CLAIMS_MAX / (claimsOf.size + 1)));
  return [...claimsOf].flatMap(([id, claims]) => {
    const its = waiting.get(id) ?? { claims: 0, events: 0 };
    return claims >= share || its.claims >= waitingShare || its.events >= eventsShare ? [id] : [];
  });
}
