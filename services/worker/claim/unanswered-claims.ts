/**
 * Tenants with a claim that was not answered: it may have been committed, and then the database shows attempts in this
 * worker's name that the worker has not begun. They are searched for in a turn during which no other claim runs: only then
 * is every attempt in this worker's name, if it is not in hand, one of an unanswered claim.
 */
export type UnansweredClaims = {
  add(tenantId: string): void;
  has(tenantId: string): boolean;
  /** The search for the tenant's unanswered claims was answered. */
  found(tenantId: string): void;
  /** Forgets the tenants found. Not before the turn ends: until then no other claim may begin. */
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
