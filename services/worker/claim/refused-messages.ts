import { LRUCache } from 'lru-cache';
import { databaseFaultOf, isDamage } from '#core/domain/storage/database-fault.ts';
import { UNPROCESSABLE } from '#core/domain/sending/decide-waiting.ts';
import { MINUTE_MS } from '#core/domain/text/duration.ts';
import { findFaults } from '#core/domain/storage/bisect-faults.ts';
import type { MessageClaimTerms } from '#core/store/sending/claimed-message.ts';
import type { Lane, WaitingRow } from '#core/store/sending/lane.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import { createRefusals } from '../refusals.ts';
import { laneKey } from './lanes.ts';
import type { Named } from './named-claims.ts';

export type Refused = Pick<Named, 'seq' | 'tenantId'> & Partial<Pick<WaitingRow, 'id' | 'requestId'>>;

export type RefusedMessagesDeps = {
  readonly store: Pick<WorkerStore, 'tryClaim' | 'findWaiting' | 'moveMessages' | 'returnSent'>;
  readonly terms: MessageClaimTerms;
  readonly events: {
    claimRefused(message: Refused, error: unknown): void;
    claimFailed(error: unknown): void;
  };
};

export type Isolated = {
  /** Whether claims go on without the messages that made them fail. If not, none of the messages has changed. */
  readonly isResolved: boolean;
  /** Messages that no claim takes, if no message was refused: the refused one may be behind them. */
  readonly missed: readonly number[];
};

/**
 * Messages that make their claim fail. Such a failure need not be the message's: a damaged index or a fault in a function refuses
 * every message. So a message ends only if another one could be claimed before it was refused, and only a few end per minute; the
 * others stay queued.
 */
export type RefusedMessages = {
  /**
   * Finds those of the messages that make their claim fail, and ends them or sets them aside. The claims of the search are rolled
   * back, because they take no tokens of a rate limit and no turns of a brake: the other messages are left to `claim_due`.
   * @throws errors of the database that no message causes.
   */
  isolate(messages: readonly Named[]): Promise<Isolated>;
  /** Messages of the lane that claims leave out for a while. */
  asideOf(lane: Lane): readonly number[];
  /** Notes that a claim took messages. */
  noteClaimed(): void;
};

/** The most messages that one search finds. */
const REFUSED_MAX = 4;
/** Enough to find so many among as many as a claim names. */
const PROBES_MAX = 64;
/** Messages that are tried singly if those that the search found are all that it has tried. */
const WITNESSES_MAX = 8;
const ENDED_PER_MINUTE_MAX = 10;
/** How long a refused message that did not end is left out of claims. */
const ASIDE_MS = 5 * MINUTE_MS;
const ASIDE_MAX = 1_000;
/** After a search in which nothing could be claimed, others are put off for so long: all lanes may be refused alike. */
const AGAIN_MS = 1_000;

export function createRefusedMessages(deps: RefusedMessagesDeps): RefusedMessages {
  const { store, terms, events } = deps;
  /** Messages that are left out, by number; `until` by `performance.now()`. */
  const aside = new LRUCache<number, { readonly lane: string; readonly until: number }>({ max: ASIDE_MAX });
  /** Of messages that were refused while nothing could be claimed. */
  const refusals = createRefusals();
  /** Lanes whose search was put off; the next one is not, so that no lane waits for the repair of another. */
  const deferred = new LRUCache<string, true>({ max: ASIDE_MAX });
  let endedAt: number[] = [];
  let searchFrom = Number.NEGATIVE_INFINITY;

  async function end(message: Named, refusal: unknown): Promise<void> {
    // Read only for the log: the row may be as unreadable as its content.
    const [row] = await store.findWaiting([message.seq]).catch(() => []);
    let ended = await store.moveMessages([message.seq], 'failed', UNPROCESSABLE);
    // After a call without an answer it becomes `unknown`; a message that a provider has accepted before returns to `sent`.
    if (!ended.has(message.seq)) {
      ended = await store.moveMessages([message.seq], 'unknown', null, 'ambiguous_attempt');
    }
    if (!ended.has(message.seq)) await store.returnSent([message.seq], 'unknown');
    if (ended.has(message.seq)) events.claimRefused(row ?? message, refusal);
  }

  async function endOrSetAside(message: Named, refusal: unknown): Promise<void> {
    const now = performance.now();
    endedAt = endedAt.filter((at) => now - at < MINUTE_MS);
    // Damage is the operator's to repair; the message may be intact.
    if (!isDamage(refusal) && endedAt.length < ENDED_PER_MINUTE_MAX) {
      endedAt.push(now);
      await end(message, refusal);
    } else {
      aside.set(message.seq, { lane: laneKey(message), until: now + ASIDE_MS });
      events.claimFailed(refusal);
    }
  }

  /** Looks for a message that can be claimed, from the other end of the list. */
  async function findWitness(
    messages: readonly Named[],
    passed: ReadonlySet<number>,
    probe: Probe,
  ): Promise<void> {
    for (const message of messages.slice(-WITNESSES_MAX).toReversed()) {
      if (passed.size > 0) return;
      await refusalOf(message, probe);
    }
  }

  function isPutOff(lane: Lane): boolean {
    const key = laneKey(lane);
    if (performance.now() >= searchFrom || deferred.delete(key)) return false;
    deferred.set(key, true);
    return true;
  }

  return {
    async isolate(messages) {
      const [first] = messages;
      if (first === undefined || isPutOff(first)) return { isResolved: false, missed: [] };
      const passed = new Set<number>();
      const probe: Probe = async (some) => {
        const seqs = some.map(({ seq }) => seq);
        for (const seq of await store.tryClaim(seqs, terms)) passed.add(seq);
      };
      const found = (await findFaults(messages, probe, PROBES_MAX, REFUSED_MAX)) ?? [];
      const refused = found.map(({ index }) => messages[index] as Named);
      if (refused.length === REFUSED_MAX) await findWitness(messages.slice(REFUSED_MAX), passed, probe);
      const certain = passed.size > 0 ? refused : refused.filter(({ seq }) => refusals.isConfirmed(seq));
      for (const message of certain) {
        // A fault that refused all may have been repaired while the search went on.
        const refusal = await refusalOf(message, probe);
        if (refusal !== undefined) await endOrSetAside(message, refusal);
      }
      if (refused.length > 0 && certain.length === 0) searchFrom = performance.now() + AGAIN_MS;
      const seqs = messages.map(({ seq }) => seq);
      return {
        isResolved: certain.length > 0,
        missed: refused.length > 0 ? [] : seqs.filter((seq) => !passed.has(seq)),
      };
    },
    asideOf(lane) {
      if (aside.size === 0) return [];
      const key = laneKey(lane);
      const now = performance.now();
      const seqs: number[] = [];
      for (const [seq, one] of Array.from(aside)) {
        if (one.until < now) aside.delete(seq);
        else if (one.lane === key) seqs.push(seq);
      }
      return seqs;
    },
    noteClaimed: refusals.noteTaken,
  };
}

type Probe = (some: readonly Named[]) => Promise<void>;

/** Returns the error with which the database refuses the message, if it does. @throws errors that no message causes. */
async function refusalOf(message: Named, probe: Probe): Promise<unknown> {
  try {
    await probe([message]);
    return undefined;
  } catch (error) {
    if (databaseFaultOf(error) !== 'row') throw error;
    return error;
  }
}
