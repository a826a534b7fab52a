import { LRUCache } from 'lru-cache';
import { decidePause, type LookupPause } from '#core/domain/decide-lookup.ts';
import type { LookupOutcome } from '#core/platform/telemetry/metrics.ts';
import type { DeliveryStore } from '#core/store/deliveries.ts';
import type { DueLookup } from '#core/store/lookups.ts';
import { findProvider, lookupPaces } from '#providers/registry.ts';
import type { LookupAnswer } from '#providers/lookup.ts';
import { askAccount, resultOf, type AskAccountDeps } from './ask-account.ts';
import { settleAsked, type SettleAskedDeps } from './settle-asked.ts';

export type LookupsDeps = Omit<AskAccountDeps, 'signal'> &
  SettleAskedDeps & {
    readonly store: Pick<DeliveryStore, 'takeLookups' | 'settleLookups'>;
    /** For how long an account and its questions are ours. */
    readonly leaseMs: number;
    /** Whether sends through the account have to wait for its vendor to recover. */
    readonly isBlocked: (accountId: string) => boolean;
    readonly onAnswered: (due: DueLookup, result: LookupOutcome) => void;
    /** The account is asked nothing for a while. */
    readonly onPaused: (of: DueLookup, pause: LookupPause) => void;
    readonly onFailed: (error: unknown) => void;
    /** An account's turn has ended: there may be receipts, and there is room for another account. */
    readonly onEnded: () => void;
  };

/** Questions to providers about messages that have been silent for too long. */
export type Lookups = {
  /** Begins to ask what is due, as far as there is room, and waits for no answer. */
  look(): Promise<void>;
  /** The vendor has refused a send since it gets too many requests: sends go first. */
  yieldToSends(accountId: string): void;
  /** Hangs up on whoever is being asked, and gives the questions back. */
  stop(): Promise<void>;
};

/** With the four questions of each, a worker has no more than 36 under way. */
const ANSWERING_AT_ONCE = 8;
/** Accounts that did not answer last are tried one by one: they never take the place of one that does. */
const FAILING_AT_ONCE = 1;
/** So long is nothing asked where sends have to wait. */
const YIELD_MS = 60_000;
const YIELDING_MAX = 20_000;

type Turn = { readonly isFailing: boolean; readonly ended: Promise<void> };

export function createLookups(deps: LookupsDeps): Lookups {
  const stopping = new AbortController();
  const turns = new Set<Turn>();
  const yielding = new LRUCache<string, true>({ max: YIELDING_MAX, ttl: YIELD_MS });

  function room(isFailing: boolean): number {
    const busy = [...turns].filter((turn) => turn.isFailing === isFailing).length;
    return (isFailing ? FAILING_AT_ONCE : ANSWERING_AT_ONCE) - busy;
  }

  async function look(): Promise<void> {
    while (!stopping.signal.aborted) {
      const terms = { accountsMax: room(false), failingMax: room(true) };
      if (terms.accountsMax + terms.failingMax === 0) return;
      const due = await deps.store.takeLookups({ ...terms, paces: lookupPaces(), leaseMs: deps.leaseMs });
      if (due.length === 0) return;
      for (const batch of Map.groupBy(due, ({ accountId }) => accountId).values()) begin(batch);
    }
  }

  function begin(batch: readonly DueLookup[]): void {
    const turn: Turn = {
      isFailing: (batch[0]?.failures ?? 0) > 0,
      ended: take(batch)
        .catch(deps.onFailed)
        .finally(() => {
          turns.delete(turn);
          deps.onEnded();
        }),
    };
    turns.add(turn);
  }

  async function take(batch: readonly DueLookup[]): Promise<void> {
    const [first] = batch;
    if (first === undefined) return;
    if (stopping.signal.aborted) return await giveBack(batch, first, 0);
    if (yielding.has(first.accountId) || deps.isBlocked(first.accountId))
      return await giveBack(batch, first, YIELD_MS);
    const begunAt = deps.now();
    const asked = await askAccount(batch, { ...deps, signal: stopping.signal });
    // Who was hung up on has not failed to answer.
    const isCut = ({ answer }: { readonly answer: LookupAnswer }): boolean =>
      stopping.signal.aborted && answer.kind === 'unanswered';
    const answered = asked.filter((one) => !isCut(one));
    const pause = decidePause(
      answered.map(({ answer }) => resultOf(answer)),
      first.failures,
    );
    const everyMs = findProvider(first.provider)?.lookup?.pace.everyMs ?? 0;
    const paceMs = everyMs * batch.length - (deps.now() - begunAt);
    const pauseMs = Math.max(pause.pauseMs, paceMs, 0);
    await settleAsked(answered, { ...first, failures: pause.failures, pauseMs }, deps);
    const cut = asked.filter(isCut).map(({ due }) => due);
    if (cut.length > 0) await giveBack(cut, first, pauseMs);
    for (const { due, answer } of answered) deps.onAnswered(due, outcomeOf(answer));
    if (pause.reason !== null) deps.onPaused(first, pause);
  }

  /** Nothing was asked: others may, after so long. */
  async function giveBack(batch: readonly DueLookup[], first: DueLookup, ms: number): Promise<void> {
    const { accountId: account_id, turn, failures } = first;
    await deps.store.settleLookups({
      reports: [],
      found: [],
      done: [],
      again: batch.map(({ seq, asks }) => ({ seq, asks, ms })),
      turns: [{ account_id, turn, failures, pause_ms: Math.round(ms) }],
    });
  }

  return {
    look,
    yieldToSends: (accountId) => void yielding.set(accountId, true),
    async stop() {
      stopping.abort();
      await Promise.all([...turns].map(({ ended }) => ended));
    },
  };
}

function outcomeOf(answer: LookupAnswer): LookupOutcome {
  if (answer.kind !== 'found') return answer.kind;
  const result = resultOf(answer);
  return result.kind === 'answered' && result.isFinal ? 'final' : 'pending';
}
