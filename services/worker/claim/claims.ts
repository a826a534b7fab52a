import { chunks } from '#core/domain/chunks.ts';
import type { FairQueue, Turn } from '#core/domain/queue/fair-queue.ts';
import type { Wake } from '#core/domain/queue/wake.ts';
import type { ClaimedMessage } from '#core/store/sending/claimed-message.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { Lane } from '#core/store/sending/lane.ts';
import type { AccountGates } from './account-gates.ts';
import {
  createClaimLanes,
  LANES_AT_ONCE,
  type LaneAsk,
  type LaneClaimsDeps,
  type Refill,
} from './lane-claims.ts';
import { createLaneReviews, REVIEW_PAGE } from './lane-reviews.ts';
import type { Lanes } from './lanes.ts';
import { createNamedClaims, type NamedClaimsDeps } from './named-claims.ts';
import { createRefusedMessages, type RefusedMessagesDeps } from './refused-messages.ts';
import type { UnansweredClaims } from './unanswered-claims.ts';
import { createUnansweredSearch, type UnansweredSearchDeps } from './unanswered-search.ts';

/*
 * From a wake-up, and from the sweep, to an attempt:
 *
 *   wake-up ── offer ──► fair queue             sweep (due-looks) ── mark ──► lanes ◄── mark ── retry timer
 *               │        (wakes by tenant)                                     │
 *               └─ gate closed or queue full: mark ──────────────────────────► │ onOpen, once the account gate
 *                           │                                                  │ is open: queue.markDue
 *                           ▼                                                  ▼
 *                         pump: claim-limiter admits a claim; the fair queue gives the slots of a turn to tenants
 *                           │
 *                           ▼
 *                         claims.run
 *        named-claims ◄─────┴─────► unanswered-search, then lane-claims (one lane of each tenant at a time)
 *        the turn's wake-ups        the turn's refills
 *             │  │                       │  │
 *             │  └── not claimed ────────┼──┴─► decide (named-claims): resolve-waiting ends, holds or moves
 *             │                          │      messages; lanes that it names are marked, lost attempts begin
 *             ▼                          ▼
 *           begin ──► attempts.begin: deliver, then recorder.record ──► account gate notes the end,
 *                     the slot is released, a near retry gets a timer, and pump runs again
 *
 * A claim that the database refuses goes through refused-messages, one without an answer is kept in unanswered-claims. The sweep
 * passes on what is no claim: lanes with a closed gate (closed-lanes, delayed-moves), scheduled messages and tenants to hold.
 */

export type ClaimsDeps = Pick<NamedClaimsDeps, 'terms' | 'begin' | 'resolve'> &
  Pick<LaneClaimsDeps, 'dueFrom'> &
  Pick<UnansweredSearchDeps, 'inHand'> & {
    readonly store: NamedClaimsDeps['store'] &
      LaneClaimsDeps['store'] &
      UnansweredSearchDeps['store'] &
      Pick<WorkerStore, 'findWaitingDue'>;
    readonly queue: Pick<FairQueue<Wake>, 'release' | 'refilled' | 'markDue'>;
    readonly lanes: Lanes;
    readonly gates: AccountGates;
    readonly unanswered: UnansweredClaims;
    /** Blocks claims for a moment. */
    readonly pause: () => void;
    readonly events: RefusedMessagesDeps['events'] & { claimFailed(error: unknown): void };
  };

/** Claims the messages that the fair queue has picked, and decides about those that cannot be claimed. */
export type Claims = {
  /**
   * Claims the messages and refills of one turn.
   * @param isAlone whether no other claim of this process is under way.
   */
  run(turn: Turn<Wake>, isAlone: () => boolean): Promise<void>;
  /**
   * Decides about messages of a lane that no claim takes, if its review is due. The lane need not be open.
   * @returns whether the review was due.
   */
  review(lane: Lane): Promise<boolean>;
};

/** The most pages of a closed lane that are read without a pause, while each is full of messages that end. */
const REVIEW_PAGES_MAX = 10;

export function createClaims(deps: ClaimsDeps): Claims {
  const { queue, lanes, gates, unanswered } = deps;
  const refused = createRefusedMessages(deps);
  const own = { ...deps, refused, begin, fail };
  const named = createNamedClaims({ ...own, release: queue.release, noteUnanswered });
  const reviews = createLaneReviews(deps);
  const claimLanes = createClaimLanes({ ...own, named, reviews, noteUnanswered: unanswered.addLane });
  const search = createUnansweredSearch({ ...deps, claimFailed: deps.events.claimFailed });

  /** Begins a message that was claimed just now, or a lost attempt. */
  function begin(message: ClaimedMessage, slotOf: string | null): void {
    if (message.action === 'send') refused.noteClaimed();
    deps.begin(message, slotOf);
  }

  function fail(error: unknown): void {
    deps.pause();
    deps.events.claimFailed(error);
  }

  /** Marks the tenant so that its next turn searches for the message, even if all its lanes are closed. */
  function noteUnanswered({ tenantId, seq }: Pick<Wake, 'tenantId' | 'seq'>): void {
    unanswered.addNamed(tenantId, seq);
    queue.markDue(tenantId);
  }

  /** Claims from due lanes: the lanes of one tenant in turn, the lanes of many tenants in one statement. */
  async function refillTenants(due: Turn<Wake>['due'], isAlone: () => boolean): Promise<void> {
    const open = new Set(due.map(({ tenantId, slots }): Refill => ({ tenantId, left: slots })));

    function end(refill: Refill): void {
      open.delete(refill);
      queue.release(refill.tenantId, refill.left);
      queue.refilled(refill.tenantId, {
        hasMore: lanes.isOpen(refill.tenantId) || unanswered.isDue(refill.tenantId),
      });
    }

    /** If `work` fails, ends these refills. What an unanswered claim could have taken is noted by then. */
    async function endOnFailure(refills: readonly Refill[], work: () => Promise<unknown>): Promise<void> {
      try {
        await work();
      } catch (error) {
        fail(error);
        for (const refill of refills) end(refill);
      }
    }

    const toSearch = [...open].filter(({ tenantId }) => unanswered.isDue(tenantId));
    if (toSearch.length > 0 && isAlone()) await endOnFailure(toSearch, () => search(toSearch));
    while (open.size > 0) {
      const asks = [...open].flatMap(nextAsk);
      const asking = new Set(asks.map(({ refill }) => refill));
      for (const refill of open) if (!asking.has(refill)) end(refill);
      for (const some of chunks(asks, LANES_AT_ONCE)) {
        await endOnFailure(
          some.map(({ refill }) => refill),
          () => claimLanes(some),
        );
      }
    }
  }

  function nextAsk(refill: Refill): LaneAsk[] {
    const lane = refill.left > 0 ? lanes.take(refill.tenantId) : undefined;
    return lane === undefined ? [] : [{ refill, lane, most: gates.slots(lane.accountId, refill.left) }];
  }

  return {
    async run(turn, isAlone) {
      if (turn.items.length > 0) await named.claim(turn.items);
      await refillTenants(turn.due, isAlone);
      unanswered.endTurn();
    },
    async review(lane) {
      if (!reviews.isDue(lane)) return false;
      for (let pages = 0; pages < REVIEW_PAGES_MAX; pages += 1) {
        const decided = await named.decide(reviews.readPage(lane));
        if (decided < REVIEW_PAGE.most || !reviews.isUnderWay(lane)) break;
      }
      return true;
    },
  };
}
