import { LRUCache } from 'lru-cache';
import { INLINE_BYTES_MAX } from '#core/domain/content.ts';
import { databaseFaultOf } from '#core/domain/database-fault.ts';
import type { FairQueue, Turn } from '#core/domain/fair-queue.ts';
import type { Wake } from '#core/domain/wake.ts';
import { CLAIM_BYTES_MAX, type ClaimedMessage, type DeliveryStore } from '#core/store/deliveries.ts';
import type { AccountGates } from './account-gates.ts';
import type { DueLane, Lanes } from './lanes.ts';
import type { UnansweredClaims } from './unanswered-claims.ts';
import { createNamedClaims, type NamedClaimsDeps } from './named-claims.ts';

export type ClaimsDeps = Pick<NamedClaimsDeps, 'terms' | 'begin'> & {
  readonly store: NamedClaimsDeps['store'] &
    Pick<DeliveryStore, 'claimDue' | 'claimedBy' | 'dueSeqs' | 'findWaitingDue'>;
  readonly queue: Pick<FairQueue<Wake>, 'release' | 'refilled' | 'markDue'>;
  readonly lanes: Lanes;
  readonly gates: AccountGates;
  readonly unanswered: UnansweredClaims;
  /** Messages in hand, which the database shows as ours as well. */
  readonly inHand: () => ReadonlySet<number>;
  /** No claim for a moment. */
  readonly pause: () => void;
  readonly events: NamedClaimsDeps['events'] & { claimFailed(error: unknown): void };
};

/** Claims in the database what the fair queue has picked, and decides about the messages that cannot be claimed. */
export type Claims = {
  /** @param alone no other claim of this process is under way. */
  run(turn: Turn<Wake>, alone: boolean): Promise<void>;
};

const REFILLS_AT_ONCE = 4;
/** Between two reviews of a lane that has more due than can be sent: each finds messages that no claim takes. */
const REVIEW_MS = 5_000;
const REVIEWED_MAX = 20_000;
/** Most messages of a lane that one review decides about. */
const DECIDED_MAX = 200;
/** With `ahead`, messages are claimed so long before they are due: their wake-up has come, or should have. */
const AHEAD_MS = 10_000;

export function createClaims(deps: ClaimsDeps): Claims {
  const { store, terms, queue, lanes, gates, unanswered } = deps;
  /** Deep lanes that were reviewed not long ago. */
  const reviewed = new LRUCache<string, true>({ max: REVIEWED_MAX, ttl: REVIEW_MS });
  const named = createNamedClaims({ ...deps, release: queue.release, noteUnanswered, fail });

  function fail(error: unknown): void {
    deps.pause();
    deps.events.claimFailed(error);
  }

  /** The tenant's next turn searches for what such a claim has taken, even if all its lanes are closed. */
  function noteUnanswered(tenantId: string, slots: number): void {
    unanswered.add(tenantId);
    queue.release(tenantId, slots);
    queue.markDue(tenantId);
  }

  /** @returns how many of the slots are left. */
  async function findUnanswered(tenantId: string, slots: number): Promise<number> {
    let left = slots;
    let afterSeq: number | undefined = 0;
    while (afterSeq !== undefined) {
      // Read before the query: an attempt in hand may end before the answer is here.
      const inHand = deps.inHand();
      const found: ClaimedMessage[] = await store.claimedBy(tenantId, terms.worker, afterSeq);
      for (const message of found) {
        if (inHand.has(message.seq)) continue;
        deps.begin(message, tenantId);
        left -= 1;
      }
      afterSeq = found.at(-1)?.seq;
    }
    unanswered.found(tenantId);
    // Negative where the claim had taken more messages than there are slots now.
    return left;
  }

  /** @returns how many of the slots are left. */
  async function claimLane(lane: DueLane, slots: number): Promise<number> {
    const asked = gates.slots(lane.accountId, slots);
    const aheadMs = lane.ahead ? AHEAD_MS : 0;
    let claimed: ClaimedMessage[];
    try {
      claimed = await store.claimDue(lane, asked, aheadMs, terms);
    } catch (error) {
      lanes.mark(lane, lane);
      if (databaseFaultOf(error) !== 'row') throw error;
      return claimLaneByName(lane, slots, aheadMs, error);
    }
    const [first] = claimed;
    if (first !== undefined) gates.noteLimit(lane.accountId, first.rateLimitPerSecond);
    for (const message of claimed) deps.begin(message, lane.tenantId);
    const segments = claimed.map((message) => message.segments ?? 1);
    const isDeep = gates.claimed(lane.accountId, asked, segments);
    if (isDeep || isFull(claimed)) lanes.mark(lane, { ahead: lane.ahead });
    if (lane.swept && (!isDeep || isReviewDue(lane)))
      await named.decide(store.findWaitingDue(lane, DECIDED_MAX));
    return slots - claimed.length;
  }

  /** A review reads all that is due in the lane. */
  function isReviewDue({ tenantId, accountId }: DueLane): boolean {
    const lane = `${tenantId} ${accountId}`;
    if (reviewed.has(lane)) return false;
    reviewed.set(lane, true);
    return true;
  }

  /** Claims the lane's messages by name, which finds the one that makes the lane's claim fail. */
  async function claimLaneByName(
    lane: DueLane,
    slots: number,
    aheadMs: number,
    refusal: unknown,
  ): Promise<number> {
    const seqs = await store.dueSeqs(lane, slots, aheadMs);
    if (seqs.size === 0) throw refusal;
    await named.claim(
      [...seqs].map((seq) => ({ ...lane, seq })),
      true,
    );
    return slots - seqs.size;
  }

  async function refillTenant({ tenantId, slots }: Turn<Wake>['due'][number], alone: boolean): Promise<void> {
    let left = slots;
    try {
      if (alone && unanswered.has(tenantId)) left = await findUnanswered(tenantId, left);
      for (let lane = next(); lane !== undefined; lane = next()) left = await claimLane(lane, left);
      queue.release(tenantId, left);
    } catch (error) {
      fail(error);
      noteUnanswered(tenantId, left);
    }
    queue.refilled(tenantId, lanes.isOpen(tenantId) || unanswered.has(tenantId));

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
      for (let i = 0; i < turn.due.length; i += REFILLS_AT_ONCE) {
        await Promise.all(
          turn.due.slice(i, i + REFILLS_AT_ONCE).map((refill) => refillTenant(refill, alone)),
        );
      }
      unanswered.endTurn();
    },
  };
}
