import { NO_ACCOUNT } from '#core/domain/routing/choose-account.ts';
import { INLINE_BYTES_MAX } from '#core/domain/message/content.ts';
import { databaseFaultOf, isUndone } from '#core/domain/storage/database-fault.ts';
import {
  CLAIM_BYTES_MAX,
  type ClaimedMessage,
  type MessageClaimTerms,
} from '#core/store/sending/claimed-message.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { LaneClaim, SearchedLane } from '#core/store/sending/lane.ts';
import type { AccountGates } from './account-gates.ts';
import type { DueLooks } from './due-looks.ts';
import { REVIEW_PAGE, type LaneReviews } from './lane-reviews.ts';
import { laneKey, type DueLane, type Lanes } from './lanes.ts';
import type { NamedClaims } from './named-claims.ts';
import type { RefusedMessages } from './refused-messages.ts';

/** Slots that a tenant was given for messages that wait in the database. */
export type Refill = { readonly tenantId: string; left: number };
/** One lane of the tenant to claim from. */
export type LaneAsk = { readonly refill: Refill; readonly lane: DueLane; readonly most: number };

export type LaneClaimsDeps = {
  readonly store: Pick<WorkerStore, 'claimDue' | 'dueSeqs' | 'findWaiting'>;
  readonly terms: MessageClaimTerms;
  readonly lanes: Pick<Lanes, 'mark'>;
  readonly dueFrom: DueLooks['dueFrom'];
  readonly gates: Pick<AccountGates, 'noteLimit' | 'claimed'>;
  readonly named: Pick<NamedClaims, 'decide'>;
  readonly refused: RefusedMessages;
  readonly reviews: LaneReviews;
  readonly begin: (message: ClaimedMessage, slotOf: string) => void;
  /** Notes that a claim from the lane got no answer; it may have been committed. */
  readonly noteUnanswered: (lane: LaneClaim) => void;
  /** Reports a failure of the database. */
  readonly fail: (error: unknown) => void;
};

/**
 * Claims from lanes of different tenants in one statement and one commit, and takes the claimed messages off the refills' slots.
 * Lanes that may hold more are marked again.
 * @throws the store's error; then all lanes are marked again and, if the claim may have been committed, noted as unanswered.
 */
export type ClaimLanes = (asks: readonly LaneAsk[]) => Promise<void>;

/** The most lanes per statement: an answer has room for two of the largest inline contents of each lane. */
export const LANES_AT_ONCE = Math.floor(CLAIM_BYTES_MAX / INLINE_BYTES_MAX / 2);
/** Leaves the database and the turns of claims to other tenants between two pages of one lane, or two claims that fail. */
const AGAIN_MS = 50;
/** With `ahead`, messages are claimed this long before they are due: their wake-up has arrived, or should have. */
const AHEAD_MS = 10_000;

export function createClaimLanes(deps: LaneClaimsDeps): ClaimLanes {
  const { store, terms, lanes, gates, named, reviews } = deps;

  async function claimLanes(asks: readonly LaneAsk[]): Promise<void> {
    const bytesMax = Math.floor(CLAIM_BYTES_MAX / asks.length);
    const claims = asks.map(termsOf);
    let claimed: ClaimedMessage[];
    try {
      claimed = await store.claimDue(claims, { ...terms, bytesMax });
    } catch (error) {
      if (databaseFaultOf(error) === 'row') return isolateRefused(asks, error);
      for (const { lane } of asks) lanes.mark(lane, lane);
      if (!isUndone(error)) for (const claim of claims) deps.noteUnanswered(claim);
      throw error;
    }
    const byLane = Map.groupBy(claimed, ({ tenantId, accountId }) =>
      laneKey({ tenantId, accountId: accountId ?? NO_ACCOUNT }),
    );
    const toReview = asks.filter((ask) => {
      const ofLane = byLane.get(laneKey(ask.lane)) ?? [];
      return take(ask, ofLane, bytesMax);
    });
    await Promise.all(toReview.map(({ lane }) => review(lane)));
  }

  /** Decides about a page of messages that no claim takes. Messages behind them may be claimed only when these have ended. */
  async function review(lane: DueLane): Promise<void> {
    const decided = await named.decide(reviews.readPage(lane));
    if (decided >= REVIEW_PAGE.most) setTimeout(() => lanes.mark(lane, lane), AGAIN_MS).unref();
  }

  /** Begins the messages claimed from a lane. @returns whether to look for messages that no claim takes. */
  function take(
    { refill, lane, most }: LaneAsk,
    claimed: readonly ClaimedMessage[],
    bytesMax: number,
  ): boolean {
    const [first] = claimed;
    if (first !== undefined) gates.noteLimit(lane.accountId, first.rateLimitPerSecond);
    for (const message of claimed) deps.begin(message, lane.tenantId);
    refill.left -= claimed.length;
    const segments = claimed.map((message) => message.segments ?? 1);
    const isDeep = gates.claimed(lane.accountId, most, segments);
    // A review that has begun continues without another sweep.
    if (isDeep || isFull(claimed, bytesMax))
      lanes.mark(lane, { ahead: lane.ahead, swept: reviews.isUnderWay(lane) });
    return lane.swept && (!isDeep || reviews.isDue(lane));
  }

  /** Finds the lane, and in it the messages, that make a claim fail. */
  async function isolateRefused(asks: readonly LaneAsk[], refusal: unknown): Promise<void> {
    const [first, ...others] = asks;
    if (first === undefined) return;
    if (others.length === 0) {
      // Later, so that a lane with many such messages leaves the turns of claims to other tenants.
      if (await endRefused(first, refusal))
        setTimeout(() => lanes.mark(first.lane, first.lane), AGAIN_MS).unref();
      return;
    }
    for (const [i, ask] of asks.entries()) {
      try {
        await claimLanes([ask]);
      } catch (error) {
        for (const { lane } of asks.slice(i + 1)) lanes.mark(lane, lane);
        throw error;
      }
    }
  }

  /**
   * Ends the messages that make the lane's claim fail, or sets them aside.
   * @returns whether a claim may succeed now. If not, the next sweep tries again.
   */
  async function endRefused({ refill, lane }: LaneAsk, refusal: unknown): Promise<boolean> {
    try {
      const aside = deps.refused.asideOf(lane);
      const due = await store.dueSeqs(searched(lane), refill.left + aside.length, aheadMsOf(lane));
      const seqs = [...due].filter((seq) => !aside.includes(seq)).slice(0, refill.left);
      const { isResolved, missed } = await deps.refused.isolate(seqs.map((seq) => ({ ...lane, seq })));
      if (isResolved) return true;
      // The refused message may be behind messages that no claim takes.
      if (missed.length > 0 && (await named.decide(store.findWaiting(missed))) > 0) return true;
      deps.fail(refusal);
    } catch (error) {
      deps.fail(error);
    }
    return false;
  }

  const searched = ({ tenantId, accountId }: DueLane): SearchedLane => ({
    tenantId,
    accountId,
    dueFrom: deps.dueFrom({ tenantId, accountId }),
  });

  const termsOf = ({ lane, most }: LaneAsk): LaneClaim => ({
    ...searched(lane),
    most,
    aheadMs: aheadMsOf(lane),
    aside: deps.refused.asideOf(lane),
  });

  return claimLanes;
}

const aheadMsOf = ({ ahead }: DueLane): number => (ahead ? AHEAD_MS : 0);

/** Whether the next message's content may not have fitted into the answer. */
function isFull(claimed: readonly ClaimedMessage[], bytesMax: number): boolean {
  const bytes = claimed.reduce((sum, { contentBytes }) => sum + (contentBytes ?? 0), 0);
  return bytes > bytesMax - INLINE_BYTES_MAX;
}
