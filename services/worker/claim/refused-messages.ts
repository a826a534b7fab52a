import { UNPROCESSABLE } from '#core/domain/decide-waiting.ts';
import { findRefused } from '#core/platform/process/find-refused.ts';
import type { MessageClaimTerms } from '#core/store/claimed-message.ts';
import type { WaitingRow } from '#core/store/lane.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { Named } from './named-claims.ts';

export type Refused = Pick<Named, 'seq' | 'tenantId'> & Partial<Pick<WaitingRow, 'id' | 'requestId'>>;

export type RefusedMessagesDeps = {
  readonly store: Pick<WorkerStore, 'tryClaim' | 'findWaiting' | 'moveMessages' | 'returnSent'>;
  readonly terms: MessageClaimTerms;
  readonly events: { claimRefused(message: Refused, error: unknown): void };
};

export type Isolated = {
  /** Whether claims go on without the messages that made them fail. */
  readonly isResolved: boolean;
  /** Messages that could be claimed. */
  readonly passed: ReadonlySet<number>;
};

/**
 * Finds those of the messages that make their claim fail, and ends them. The claims of the search are rolled back, because they
 * take no tokens of a rate limit and no turns of a brake: the other messages are left to `claim_due`.
 * @throws errors of the database that no message causes.
 */
export type IsolateRefused = (messages: readonly Named[]) => Promise<Isolated>;

/** The most messages that one search ends. */
const REFUSED_MAX = 4;
/** Enough to find so many among as many as a claim names. */
const PROBES_MAX = 64;

export function createIsolateRefused({ store, terms, events }: RefusedMessagesDeps): IsolateRefused {
  async function end(message: Named, refusal: unknown): Promise<void> {
    // Read only for the log: the row may be as unreadable as its content.
    const [row] = await store.findWaiting([message.seq]).catch(() => []);
    const ended = await store.moveMessages([message.seq], 'failed', UNPROCESSABLE);
    // A message that a provider has accepted before returns to `sent`.
    if (!ended.has(message.seq)) await store.returnSent([message.seq], 'unknown');
    if (ended.has(message.seq)) events.claimRefused(row ?? message, refusal);
  }

  return async (messages) => {
    const passed = new Set<number>();
    async function probe(some: readonly Named[]): Promise<void> {
      const seqs = some.map(({ seq }) => seq);
      for (const seq of await store.tryClaim(seqs, terms)) passed.add(seq);
    }
    const refused = (await findRefused(messages, probe, PROBES_MAX, REFUSED_MAX)) ?? [];
    for (const { index, error } of refused) await end(messages[index] as Named, error);
    return { isResolved: refused.length > 0, passed };
  };
}
