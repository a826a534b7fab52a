/**
 * Tenants with an unanswered claim. The claim may have been committed, so the database may show attempts in this worker's name
 * that the worker has not begun. The worker searches for them in a turn during which no other claim runs: only then does every
 * attempt in its name that is not in hand belong to an unanswered claim.
 */
export type UnansweredClaims = {
  add(tenantId: string): void;
  /** Whether to search for the tenant's unanswered claims now. */
  isDue(tenantId: string): boolean;
  /** Records that the search for the tenant's unanswered claims got its answer. */
  found(tenantId: string): void;
  /** Puts the search off, because a claim has not ended and what it takes cannot be seen yet. */
  putOff(tenantId: string): void;
  /** Removes the tenants that were searched. Not before the turn ends, because no other claim may begin until then. */
  endTurn(): void;
  stop(): void;
  /** Tenants with an unanswered claim, those whose search is put off included. */
  readonly size: number;
};

/** Time between two searches while a claim has not ended. */
const AGAIN_MS = 500;

/** @param onDue called when a search that was put off is due. */
export function createUnansweredClaims(onDue: (tenantId: string) => void): UnansweredClaims {
  const tenants = new Set<string>();
  const cleared = new Set<string>();
  const waiting = new Map<string, NodeJS.Timeout>();

  return {
    add(tenantId) {
      tenants.add(tenantId);
      cleared.delete(tenantId);
    },
    isDue: (tenantId) => tenants.has(tenantId) && !waiting.has(tenantId),
    found: (tenantId) => void cleared.add(tenantId),
    putOff(tenantId) {
      waiting.set(
        tenantId,
        setTimeout(() => {
          waiting.delete(tenantId);
          onDue(tenantId);
        }, AGAIN_MS),
      );
    },
    endTurn() {
      for (const tenantId of cleared) tenants.delete(tenantId);
      cleared.clear();
    },
    stop() {
      for (const timer of waiting.values()) clearTimeout(timer);
    },
    get size() {
      return tenants.size;
    },
  };
}
