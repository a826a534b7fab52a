import { databaseFaultOf, isUndone } from '#core/domain/storage/database-fault.ts';
import type { Wake } from '#core/domain/queue/wake.ts';
import type { ClaimedMessage, MessageClaimTerms } from '#core/store/sending/claimed-message.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { WaitingRow } from '#core/store/sending/lane.ts';
import type { AccountGates } from './account-gates.ts';
import type { Lanes } from './lanes.ts';
import type { RefusedMessages, RefusedMessagesDeps } from './refused-messages.ts';
import type { ResolveWaiting } from './resolve-waiting.ts';

/** A message and its lane. */
export type Named = Omit<Wake, 'priority'>;

export type NamedClaimsDeps = {
  readonly store: RefusedMessagesDeps['store'] & Pick<WorkerStore, 'claim' | 'findWaiting'>;
  readonly resolve: ResolveWaiting;
  readonly terms: MessageClaimTerms;
  readonly lanes: Pick<Lanes, 'mark'>;
  readonly gates: Pick<AccountGates, 'noteLimit'>;
  readonly refused: RefusedMessages;
  /** Begins a claimed message. @param slotOf the tenant whose slot it occupies, null if none. */
  readonly begin: (message: ClaimedMessage, slotOf: string | null) => void;
  readonly release: (tenantId: string) => void;
  /** Notes that the message's claim got no answer; it may have been committed. */
  readonly noteUnanswered: (message: Named) => void;
  /** Reports a failure of the database. */
  readonly fail: (error: unknown) => void;
};

export type NamedClaims = {
  /** Claims messages by name, each with a slot of its tenant, and decides about those that cannot be claimed. */
  claim(named: readonly Named[]): Promise<void>;
  /** Decides about messages that no claim takes. @returns how many of them do not wait in their lane any more. */
  decide(waiting: Promise<readonly WaitingRow[]>): Promise<number>;
};

export function createNamedClaims(deps: NamedClaimsDeps): NamedClaims {
  const { store, lanes, gates, fail } = deps;

  /** Claims the messages. @returns those that were not claimed. */
  async function claimEach(named: readonly Named[]): Promise<number[]> {
    const seqs = named.map(({ seq }) => seq);
    let claimed: ClaimedMessage[];
    try {
      claimed = await store.claim(seqs, deps.terms);
    } catch (error) {
      if (databaseFaultOf(error) === 'row') {
        await endRefused(named, error);
        return [];
      }
      fail(error);
      for (const one of named) {
        if (!isUndone(error)) deps.noteUnanswered(one);
        deps.release(one.tenantId);
        lanes.mark(one, { ahead: true });
      }
      return [];
    }
    const started = new Map(claimed.map((message) => [message.seq, message]));
    const missed: number[] = [];
    for (const { seq, tenantId } of named) {
      const message = started.get(seq);
      started.delete(seq);
      // A wake-up may name the wrong tenant. The slot was taken in that tenant's name, so it is released in it.
      if (message !== undefined) deps.begin(message, tenantId);
      else {
        deps.release(tenantId);
        missed.push(seq);
      }
    }
    return missed;
  }

  /** Ends the messages that make the claim fail, and leaves the others to claims from their lanes. */
  async function endRefused(named: readonly Named[], refusal: unknown): Promise<void> {
    try {
      const { isResolved } = await deps.refused.isolate(named);
      if (!isResolved) fail(refusal);
    } catch (error) {
      fail(error);
    }
    for (const one of named) {
      deps.release(one.tenantId);
      lanes.mark(one, { ahead: true });
    }
  }

  /** Decides about the messages. After a failure the sweep finds them again. */
  async function decide(waiting: Promise<readonly WaitingRow[]>): Promise<number> {
    try {
      const rows = await waiting;
      for (const row of rows) gates.noteLimit(row.accountId, row.rateLimitPerSecond);
      const resolved = await deps.resolve(rows);
      for (const lane of resolved.lanes) lanes.mark(lane, { ahead: true });
      for (const message of resolved.lost) deps.begin(message, null);
      return resolved.moved + resolved.lost.length;
    } catch (error) {
      fail(error);
      return 0;
    }
  }

  return {
    async claim(named) {
      const missed = await claimEach(named);
      if (missed.length > 0) await decide(store.findWaiting(missed));
    },
    decide,
  };
}
