import { databaseFaultOf } from '#core/domain/database-fault.ts';
import { UNPROCESSABLE } from '#core/domain/decide-waiting.ts';
import type { FairQueue, Turn } from '#core/domain/fair-queue.ts';
import type { Wake } from '#core/domain/wake.ts';
import type { ClaimedMessage, ClaimTerms, DeliveryStore, WaitingRow } from '#core/store/deliveries.ts';
import type { AccountGates } from './account-gates.ts';
import type { DueLane, Lanes } from './lanes.ts';
import type { LostClaims } from './lost-claims.ts';
import { resolveWaiting, type ResolveDeps } from './resolve-waiting.ts';

export type ClaimsDeps = {
  readonly store: ResolveDeps['store'] &
    Pick<DeliveryStore, 'claim' | 'claimDue' | 'claimedBy' | 'dueSeqs' | 'look' | 'lookDue'>;
  readonly terms: ClaimTerms;
  readonly queue: Pick<FairQueue<Wake>, 'release' | 'looked' | 'markDue'>;
  readonly lanes: Lanes;
  readonly gates: AccountGates;
  readonly lostClaims: LostClaims;
  /** Messages in hand, which the database shows as ours as well. */
  readonly inHand: () => ReadonlySet<number>;
  /** Begins a claimed message; its place is given back in this tenant's name, null where none was taken. */
  readonly begin: (message: ClaimedMessage, placeOf: string | null) => void;
  readonly events: {
    claimFailed(error: unknown): void;
    claimRefused(message: Refused, error: unknown): void;
    endedUncalled: ResolveDeps['endedUncalled'];
  };
  /** No claim for a moment. */
  readonly pause: () => void;
};

/** The database's part of a turn: claims what the fair queue has picked, and decides about what cannot be claimed. */
export type Claims = {
  /** @param alone no other claim of this process is under way. */
  run(turn: Turn<Wake>, alone: boolean): Promise<void>;
};

type Named = Pick<Wake, 'seq' | 'tenantId'>;
export type Refused = Named & Partial<Pick<WaitingRow, 'id' | 'requestId'>>;

const LOOKS_AT_ONCE = 4;
/** Messages of a lane that are decided about at once. */
const DECIDED_MAX = 200;
/** With `ahead`: also messages whose wake-up should have come first. */
const AHEAD_MS = 10_000;

export function createClaims(deps: ClaimsDeps): Claims {
  const { store, terms, queue, lanes, gates, lostClaims, events } = deps;

  function fail(error: unknown): void {
    deps.pause();
    events.claimFailed(error);
  }

  /**
   * @param beyondLimit also of accounts with a rate limit, without tokens.
   * @returns the messages that were not claimed.
   */
  async function claimNamed(named: readonly Named[], beyondLimit = false): Promise<number[]> {
    const seqs = named.map(({ seq }) => seq);
    let claimed: ClaimedMessage[];
    try {
      claimed = await store.claim(seqs, terms, beyondLimit);
    } catch (error) {
      if (databaseFaultOf(error) === 'row') return claimApart(named, beyondLimit, error);
      fail(error);
      for (const { tenantId } of named) loseClaim(tenantId, 1);
      return [];
    }
    const started = new Map(claimed.map((message) => [message.seq, message]));
    const missed: number[] = [];
    for (const { seq, tenantId } of named) {
      const message = started.get(seq);
      started.delete(seq);
      // The place was taken in the name of whom the wake-up named, and is given back in the same.
      if (message !== undefined) deps.begin(message, tenantId);
      else {
        queue.release(tenantId);
        missed.push(seq);
      }
    }
    return missed;
  }

  /** One message that the database refuses must not keep the others from being claimed: alone it is ended. */
  async function claimApart(
    named: readonly Named[],
    beyondLimit: boolean,
    refusal: unknown,
  ): Promise<number[]> {
    const [first] = named;
    if (named.length > 1 || first === undefined) {
      const half = named.length >> 1;
      return [
        ...(await claimNamed(named.slice(0, half), beyondLimit)),
        ...(await claimNamed(named.slice(half), beyondLimit)),
      ];
    }
    try {
      // For its name alone, which may be as unreadable as the rest.
      const [row] = await store.look([first.seq]).catch(() => []);
      const ended = await store.endMessages([first.seq], 'failed', UNPROCESSABLE);
      if (ended.has(first.seq)) events.claimRefused(row ?? first, refusal);
    } catch (error) {
      fail(error);
    }
    queue.release(first.tenantId);
    return [];
  }

  /** What such a claim has taken is looked for at the tenant's next turn, even where all its lanes are closed. */
  function loseClaim(tenantId: string, places: number): void {
    lostClaims.add(tenantId);
    queue.release(tenantId, places);
    queue.markDue(tenantId, true);
  }

  /** Decides about messages that no claim took. What fails here is found again by the sweep. */
  async function decideAbout(waiting: Promise<WaitingRow[]>): Promise<void> {
    try {
      const rows = await waiting;
      for (const row of rows) gates.noteLimit(row.accountId, row.rateLimitPerSecond);
      const resolved = await resolveWaiting(rows, { store, endedUncalled: events.endedUncalled });
      for (const lane of resolved.lanes) lanes.mark(lane, { ahead: true });
      for (const message of resolved.lost) deps.begin(message, null);
    } catch (error) {
      fail(error);
    }
  }

  async function claimOrDecide(named: readonly Named[], beyondLimit = false): Promise<void> {
    const missed = await claimNamed(named, beyondLimit);
    if (missed.length > 0) await decideAbout(store.look(missed));
  }

  /** @returns how many of the places are left. */
  async function findLost(tenantId: string, places: number): Promise<number> {
    // What is in hand as the database looks may have ended by the time that its answer is here.
    const inHand = deps.inHand();
    const ours = (await store.claimedBy(tenantId, terms.worker)).filter(({ seq }) => !inHand.has(seq));
    lostClaims.found(tenantId);
    for (const message of ours) deps.begin(message, tenantId);
    // More may have been lost than there are places now, so that fewer than none are left.
    return places - ours.length;
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
      return claimLaneApart(lane, places, aheadMs, error);
    }
    const [first] = claimed;
    if (first !== undefined) gates.noteLimit(lane.accountId, first.rateLimitPerSecond);
    for (const message of claimed) deps.begin(message, lane.tenantId);
    const segments = claimed.map((message) => message.segments ?? 1);
    if (gates.looked(lane.accountId, asked, segments)) lanes.mark(lane, { ahead: lane.ahead });
    if (lane.swept) await decideAbout(store.lookDue(lane, DECIDED_MAX));
    return places - claimed.length;
  }

  /** Names the lane's messages, so that the one which makes its claim fail is found among them. */
  async function claimLaneApart(
    lane: DueLane,
    places: number,
    aheadMs: number,
    refusal: unknown,
  ): Promise<number> {
    const seqs = [...(await store.dueSeqs(lane, places, aheadMs))];
    if (seqs.length === 0) throw refusal;
    const named = seqs.map((seq) => ({ seq, tenantId: lane.tenantId }));
    await claimOrDecide(named, true);
    return places - seqs.length;
  }

  async function lookInto({ tenantId, places }: Look, alone: boolean): Promise<void> {
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

  return {
    async run(turn, alone) {
      if (turn.items.length > 0) await claimOrDecide(turn.items);
      for (let i = 0; i < turn.due.length; i += LOOKS_AT_ONCE) {
        await Promise.all(turn.due.slice(i, i + LOOKS_AT_ONCE).map((look) => lookInto(look, alone)));
      }
      lostClaims.endTurn();
    },
  };
}

type Look = Turn<Wake>['due'][number];
