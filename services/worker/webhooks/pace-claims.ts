import { hasSurplus, type TenantsWithSurplus } from '#core/domain/queue/expected-work.ts';
import type { DeliveryClaim } from '#core/store/webhooks/delivery-claim.ts';
import type { SidePace } from '../beside-sends/side-pace.ts';

/** Runs a query that claims deliveries, in its turn beside sends. `tenantIdsOf` returns the tenants that the work was for. */
export type PaceClaims = <Result extends { readonly claims: readonly DeliveryClaim[] }>(
  query: () => Promise<Result>,
  tenantIdsOf: (result: Result) => readonly string[],
) => Promise<Result>;

/** @param waitedMs returns for how long claims count as having waited. */
export function createPaceClaims(
  pace: SidePace,
  withSurplus: () => TenantsWithSurplus,
  waitedMs: (claims: readonly DeliveryClaim[]) => number,
): PaceClaims {
  /** Returns the part of the tenants that have surplus, from 0 to 1. */
  function surplusOf(tenantIds: readonly string[]): number {
    const now = withSurplus();
    const some = tenantIds.filter((id) => hasSurplus(now, id));
    return some.length / Math.max(1, tenantIds.length);
  }

  return (query, tenantIdsOf) =>
    pace('surplus', query, (result) => ({
      surplus: surplusOf(tenantIdsOf(result)),
      waitedMs: waitedMs(result.claims),
    }));
}
