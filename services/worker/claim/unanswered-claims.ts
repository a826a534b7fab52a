/**
 * Tenants with an unanswered claim. The claim may have been committed, so the database may show attempts in this worker's name
 * that the worker has not begun. The worker searches for them in a turn during which no other claim runs: only then does every
 * attempt in its name that is not in hand belong to an unanswered claim.
 */
export type UnansweredClaims = {
  add(tenantId: string): void;
  has(tenantId: string): boolean;
  /** Records that the search for the tenant's unanswered claims got its answer. */
  found(tenantId: string): void;
  /** Removes the tenants that were searched. Not before the turn ends, because no other claim may begin until then. */
  endTurn(): void;
  readonly size: number;
};

export function createUnansweredClaims(): UnansweredClaims {
  const tenants = new Set<string>();
  const cleared = new Set<string>();

  return {
    add(tenantId) {
      tenants.add(tenantId);
      cleared.delete(tenantId);
    },
    has: (tenantId) => tenants.has(tenantId),
    found: (tenantId) => void cleared.add(tenantId),
    endTurn() {
      for (const tenantId of cleared) tenants.delete(tenantId);
      cleared.clear();
    },
    get size() {
      return tenants.size;
    },
  };
}
