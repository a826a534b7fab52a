import { LRUCache } from 'lru-cache';
import { INLINE_BYTES_MAX } from '#core/domain/content.ts';
import { databaseFaultOf } from '#core/domain/database-fault.ts';
import type { FairQueue, Turn } from '#core/domain/fair-queue.ts';
import type { Wake } from '#core/domain/wake.ts';
import { CLAIM_BYTES_MAX, type ClaimedMessage, type DeliveryStore } from '#core/store/deliveries.ts';
import type { AccountGates } from './account-gates.ts';
import type { DueLane, Lanes } from './lanes.ts';
import type { LostClaims } from './lost-claims.ts';
import { createNamedClaims, type NamedClaimsDeps } from './named-claims.ts';

export type ClaimsDeps = Pick<NamedClaimsDeps, 'terms' | 'begin'> & {
  readonly store: NamedClaimsDeps['store'] &
    Pick<DeliveryStore, 'claimDue' | 'claimedBy' | 'dueSeqs' | 'lookDue'>;
  readonly queue: Pick<FairQueue<Wake>, 'release' | 'looked' | 'markDue'>;
  readonly lanes: Lanes;
  readonly gates: AccountGates;
  readonly lostClaims: LostClaims;
  /** Messages in hand, which the database shows as ours as well. */
  readonly inHand: () => ReadonlySet<number>;
  /** No claim for a moment. */
  readonly pause: () => void;
  readonly events: NamedClaimsDeps['events'] & { claimFailed(error: unknown): void };
};

/** The database's part of a turn: claims what the fair queue has picked, and decides about what cannot be claimed. */
export type Claims = {
  /** @param alone no other claim of this process is under way. */
  run(turn: Turn<Wake>, alone: boolean): Promise<void>;
};

const LOOKS_AT_ONCE = 4;
/** Between two looks for what no claim takes, in a lane that has more due than can be sent. */
const REVIEW_MS = 5_000;
const REVIEWED_MAX = 20_000;
/** Messages of a lane that are decided about at once. */
const DECIDED_MAX = 200;
/** With `ahead`: also messages whose wake-up should have come first. */
const AHEAD_MS = 10_000;

export function createClaims(deps: ClaimsDeps): Claims {
  const { store, terms, queue, lanes, gates, lostClaims } = deps;
  /** Deep lanes whose messages were looked at not long ago for what no claim takes. */
  const reviewed = new LRUCache<string, true>({ max: REVIEWED_MAX, ttl: REVIEW_MS });
  const named = createNamedClaims({ ...deps, release: queue.release, loseClaim, fail });

  function fail(error: unknown): void {
    deps.pause();
    deps.events.claimFailed(error);
  }

  /** What such a claim has taken is looked for at the tenant's next turn, even where all its lanes are closed. */
  function loseClaim(tenantId: string, places: number): void {
    lostClaims.add(tenantId);
    queue.release(tenantId, places);
    queue.markDue(tenantId);
  }

  /** @returns how many of the places are left. */
  async function findLost(tenantId: string, places: number): Promise<number> {
    let left = places;
    let afterSeq: number | undefined = 0;
    while (afterSeq !== undefined) {
      // What is in hand as the database looks may have ended by the time that its answer is here.
      const inHand = deps.inHand();
      const found: ClaimedMessage[] = await store.claimedBy(tenantId, terms.worker, afterSeq);
      for (const message of found) {
        if (inHand.has(message.seq)) continue;
        deps.begin(message, tenantId);
        left -= 1;
      }
      afterSeq = found.at(-1)?.seq;
    }
    lostClaims.found(tenantId);
    // More may have been lost than there are places now, so that fewer than none are left.
    return left;
  }

  /** @returns how many of the places are left. */
  async function claimLane(lane: DueLane, places: number): Promise<number> {
    const asked = gates.places(lane.accountId, places);
    const aheadMs = lane.ahead ? AHEAD_MS : 0;
    let claimed: ClaimedMessage[];
    try {
      claimed = await store.claimDue(lane, asked, aheadMs, terms);
    } catch (error) {
      lanes.mark(lane, lane);
      if (databaseFaultOf(error) !== 'row') throw error;
      return claimLaneByName(lane, places, aheadMs, error);
    }
    const [first] = claimed;
    if (first !== undefined) gates.noteLimit(lane.accountId, first.rateLimitPerSecond);
    for (const message of claimed) deps.begin(message, lane.tenantId);
    const segments = claimed.map((message) => message.segments ?? 1);
    const isDeep = gates.looked(lane.accountId, asked, segments);
    if (isDeep || isFull(claimed)) lanes.mark(lane, { ahead: lane.ahead });
    if (lane.swept && (!isDeep || isReviewDue(lane))) await named.decide(store.lookDue(lane, DECIDED_MAX));
    return places - claimed.length;
  }

  /** Such a look passes all that is due. */
  function isReviewDue({ tenantId, accountId }: DueLane): boolean {
    const lane = `${tenantId} ${accountId}`;
    if (reviewed.has(lane)) return false;
    reviewed.set(lane, true);
    return true;
  }

  /** So that the one message which makes the lane's claim fail is found among the others. */
  async function claimLaneByName(
    lane: DueLane,
    places: number,
    aheadMs: number,
    refusal: unknown,
  ): Promise<number> {
    const seqs = await store.dueSeqs(lane, places, aheadMs);
    if (seqs.size === 0) throw refusal;
    await named.claim(
      [...seqs].map((seq) => ({ ...lane, seq })),
      true,
    );
    return places - seqs.size;
  }

  async function lookInto({ tenantId, places }: Turn<Wake>['due'][number], alone: boolean): Promise<void> {
    let left = places;
    try {
      if (alone && lostClaims.has(tenantId)) left = await findLost(tenantId, left);
      for (let lane = next(); lane !== undefined; lane = next()) left = await claimLane(lane, left);
      queue.release(tenantId, left);
    } catch (error) {
      fail(error);
      loseClaim(tenantId, left);
    }
    queue.looked(tenantId, lanes.isOpen(tenantId) || lostClaims.has(tenantId));

    function next(): DueLane | undefined {
      return left > 0 ? lanes.take(tenantId) : undefined;
    }
  }

  /** The next message's content may not have found room. */
  function isFull(claimed: readonly ClaimedMessage[]): boolean {
    const bytes = claimed.reduce((sum, { contentBytes }) => sum + (contentBytes ?? 0), 0);
    return bytes > CLAIM_BYTES_MAX - INLINE_BYTES_MAX;
  }

  return {
    async run(turn, alone) {
      if (turn.items.length > 0) await named.claim(turn.items);
      for (let i = 0; i < turn.due.length; i += LOOKS_AT_ONCE) {
        await Promise.all(turn.due.slice(i, i + LOOKS_AT_ONCE).map((look) => lookInto(look, alone)));
      }
      lostClaims.endTurn();
    },
  };
}
