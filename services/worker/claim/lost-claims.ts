/**
 * Tenants of claims whose answer was lost: what those claims took is under way in our name, and nobody has begun with it.
 * It is looked for by a turn that claims alone: only then is what the database shows as ours, and is not in hand, lost.
 */
export type LostClaims = {
  add(tenantId: string): void;
  has(tenantId: string): boolean;
  /** A look for the tenant's lost claims was answered. */
  found(tenantId: string): void;
  /** Not before the turn's end are those found forgotten: until then no other claim may begin beside its looks. */
  endTurn(): void;
  readonly size: number;
};

export function createLostClaims(): LostClaims {
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
