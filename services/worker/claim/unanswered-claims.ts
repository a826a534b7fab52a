import type { ClaimedPlace } from '#core/store/sending/claims.ts';
import type { ClaimedLane, DueFrom } from '#core/store/sending/lane.ts';

export type LaneSearch = {
  readonly lane: ClaimedLane;
  /** Where the next page begins; undefined: at the beginning. */
  at?: ClaimedPlace | undefined;
  /** Pages read so far. */
  pages: number;
};

/** What a tenant's unanswered claims could have taken and has not been searched yet. */
export type UnsearchedClaim = { readonly seqs: ReadonlySet<number>; readonly lanes: readonly LaneSearch[] };

/**
 * What unanswered claims could have taken. Such a claim may have been committed, so the database may show attempts in this
 * worker's name that the worker has not begun. The worker searches for them while no other claim runs: only then does every
 * attempt in its name that is not in hand belong to an unanswered claim. Between two pages of a search other claims may run.
 */
export type UnansweredClaims = {
  /** Notes a message that an unanswered claim named. */
  addNamed(tenantId: string, seq: number): void;
  /** Notes a lane that an unanswered claim read. If it is being searched, that search starts again. */
  addLane(lane: ClaimedLane): void;
  /** Whether to search for the tenant's unanswered claims now. */
  isDue(tenantId: string): boolean;
  of(tenantId: string): UnsearchedClaim;
  /** Records that these messages were searched for. */
  foundNamed(tenantId: string, seqs: readonly number[]): void;
  /** Records that this lane was searched to its end. */
  foundIn(search: LaneSearch): void;
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

type Tenant = { readonly seqs: Set<number>; readonly lanes: Map<string, LaneSearch>; notedAt: number };

/**
 * @param onDue called when a search that was put off is due.
 * @param forgetMs time after which the leases of an unanswered claim have ended, so that nothing is left to be found.
 */
export function createUnansweredClaims(
  onDue: (tenantId: string) => void,
  forgetMs: number,
): UnansweredClaims {
  const tenants = new Map<string, Tenant>();
  const waiting = new Map<string, NodeJS.Timeout>();

  function noted(tenantId: string): Tenant {
    const tenant = tenants.get(tenantId) ?? { seqs: new Set(), lanes: new Map(), notedAt: 0 };
    tenant.notedAt = performance.now();
    tenants.set(tenantId, tenant);
    return tenant;
  }

  const isOver = ({ seqs, lanes, notedAt }: Tenant): boolean =>
    (seqs.size === 0 && lanes.size === 0) || performance.now() - notedAt > forgetMs;

  return {
    addNamed: (tenantId, seq) => void noted(tenantId).seqs.add(seq),
    addLane({ tenantId, accountId, aheadMs, dueFrom }) {
      const { lanes } = noted(tenantId);
      const known = lanes.get(accountId)?.lane;
      const lane = {
        tenantId,
        accountId,
        aheadMs: Math.max(aheadMs, known?.aheadMs ?? 0),
        dueFrom: known === undefined ? dueFrom : earlier(dueFrom, known.dueFrom),
      };
      lanes.set(accountId, { lane, pages: 0 });
    },
    isDue: (tenantId) => tenants.has(tenantId) && !waiting.has(tenantId),
    of(tenantId) {
      const { seqs, lanes } = tenants.get(tenantId) ?? { seqs: new Set(), lanes: new Map() };
      return { seqs, lanes: [...lanes.values()] };
    },
    foundNamed(tenantId, seqs) {
      for (const seq of seqs) tenants.get(tenantId)?.seqs.delete(seq);
    },
    foundIn(search) {
      const { tenantId, accountId } = search.lane;
      const lanes = tenants.get(tenantId)?.lanes;
      if (lanes?.get(accountId) === search) lanes.delete(accountId);
    },
    putOff(tenantId) {
      if (waiting.has(tenantId)) return;
      waiting.set(
        tenantId,
        setTimeout(() => {
          waiting.delete(tenantId);
          onDue(tenantId);
        }, AGAIN_MS),
      );
    },
    endTurn() {
      for (const [tenantId, tenant] of tenants) if (isOver(tenant)) tenants.delete(tenantId);
    },
    stop() {
      for (const timer of waiting.values()) clearTimeout(timer);
    },
    get size() {
      return tenants.size;
    },
  };
}

/** Returns the earlier instant of each priority; without one of them the lane is searched from its beginning. */
function earlier(one: DueFrom | undefined, other: DueFrom | undefined): DueFrom | undefined {
  if (one === undefined || other === undefined) return undefined;
  return [Math.min(one[0], other[0]), Math.min(one[1], other[1]), Math.min(one[2], other[2])];
}
