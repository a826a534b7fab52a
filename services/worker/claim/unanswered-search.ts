import { chunks } from '#core/domain/chunks.ts';
import { databaseFaultOf } from '#core/domain/storage/database-fault.ts';
import type { ClaimedMessage, MessageClaimTerms } from '#core/store/sending/claimed-message.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { Refill } from './lane-claims.ts';
import type { LaneSearch, UnansweredClaims } from './unanswered-claims.ts';

export type UnansweredSearchDeps = {
  readonly store: Pick<WorkerStore, 'claimedBy' | 'claimedIn'>;
  readonly terms: MessageClaimTerms;
  readonly unanswered: UnansweredClaims;
  /** Attempts in hand, by message; the database shows them as this worker's too. */
  readonly inHand: () => ReadonlyMap<number, number>;
  readonly begin: (message: ClaimedMessage, slotOf: string) => void;
  readonly claimFailed: (error: unknown) => void;
};

/** Rows that the lane searches of one turn read: other tenants' claims wait for them. */
const SEARCH_READS_MAX = 10_000;
/** Lanes that are searched in one turn. */
const LANES_MAX = 12;
/** Messages that are searched for by one call; as many as a claim takes. */
const NAMED_MAX = 128;

/**
 * Begins the attempts that unanswered claims of these tenants have taken, and takes them off the refills' slots. One call reads
 * one page of a lane at most; what is left is searched in later turns. The searches run one after the other, because each takes
 * the lock that shows whether a claim of this worker is still under way.
 * @throws the store's error. What was not searched stays noted.
 */
export type UnansweredSearch = (refills: readonly Refill[]) => Promise<void>;

export function createUnansweredSearch(deps: UnansweredSearchDeps): UnansweredSearch {
  const { store, terms, unanswered } = deps;

  /**
   * Begins those of the messages that this worker has claimed; late ones go back to the queue without a call.
   * @returns false if a claim has not ended.
   */
  async function beginClaimed(
    slots: ReadonlyMap<number, Refill>,
    { isLate }: { readonly isLate: boolean },
  ): Promise<boolean> {
    const seqs = [...slots.keys()];
    let afterSeq: number | undefined = 0;
    while (afterSeq !== undefined) {
      // Copied before the query, because an attempt in hand may end before the query returns.
      const inHand = deps.inHand();
      const found: ClaimedMessage[] | 'claims_open' = await store.claimedBy(seqs, terms, {
        isLate,
        afterSeq,
      });
      if (found === 'claims_open') return false;
      for (const message of found) {
        const refill = slots.get(message.seq);
        if (refill === undefined || (inHand.get(message.seq) ?? 0) >= message.attempt) continue;
        deps.begin(message, refill.tenantId);
        // Becomes negative if the unanswered claim had taken more messages than there are slots now.
        refill.left -= 1;
      }
      afterSeq = found.at(-1)?.seq;
    }
    return true;
  }

  async function beginAll(seqs: readonly (readonly [seq: number, refill: Refill])[]): Promise<boolean> {
    for (const some of chunks(seqs, NAMED_MAX)) {
      const slots = new Map(some);
      for (const isLate of [false, true]) if (!(await beginClaimed(slots, { isLate }))) return false;
    }
    return true;
  }

  /** @returns whether no claim is under way. */
  async function searchNamed(refills: readonly Refill[]): Promise<boolean> {
    const named = refills
      .flatMap((refill) => [...unanswered.of(refill.tenantId).seqs].map((seq) => [seq, refill] as const))
      .slice(0, NAMED_MAX);
    if (named.length === 0) return true;
    if (!(await beginAll(named))) return false;
    for (const [seq, { tenantId }] of named) unanswered.foundNamed(tenantId, [seq]);
    return true;
  }

  /** Reads one page of the lane. @returns the rows read, or `claims_open`. */
  async function searchLane(
    search: LaneSearch,
    refill: Refill,
    readsMax: number,
  ): Promise<number | 'claims_open'> {
    const inHand = deps.inHand();
    const page = await store.claimedIn(search.lane, terms, readsMax, search.at);
    if (page === 'claims_open') return page;
    const unknown = page.found.filter(({ seq, attempt }) => (inHand.get(seq) ?? 0) < attempt);
    if (!(await beginAll(unknown.map(({ seq }) => [seq, refill])))) return 'claims_open';
    search.at = page.next;
    search.pages += 1;
    if (page.next === undefined) unanswered.foundIn(search);
    return page.reads;
  }

  /** @returns whether no claim is under way. */
  async function searchLanes(refills: readonly Refill[]): Promise<boolean> {
    // Those with many pages last: the others are hardly delayed by them.
    const searches = refills
      .flatMap((refill) => unanswered.of(refill.tenantId).lanes.map((search) => ({ refill, search })))
      .toSorted((one, other) => one.search.pages - other.search.pages)
      .slice(0, LANES_MAX);
    let left = SEARCH_READS_MAX;
    for (const { refill, search } of searches) {
      if (left <= 0) break;
      try {
        const reads = await searchLane(search, refill, left);
        if (reads === 'claims_open') return false;
        left -= reads;
      } catch (error) {
        // A damaged row in one lane does not stop the searches of others.
        if (databaseFaultOf(error) !== 'row') throw error;
        deps.claimFailed(error);
        unanswered.putOff(refill.tenantId);
      }
    }
    return true;
  }

  return async (refills) => {
    if (refills.length === 0 || ((await searchNamed(refills)) && (await searchLanes(refills)))) return;
    for (const { tenantId } of refills) unanswered.putOff(tenantId);
  };
}
