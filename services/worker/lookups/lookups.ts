import { LRUCache } from 'lru-cache';
import type { MonotonicClock } from '#core/domain/clock.ts';
import { decidePause, type LookupPause } from '#core/domain/receipts/decide-lookup.ts';
import type { LookupOutcome } from '#core/platform/telemetry/worker-labels.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { DueLookup, LookupTerms } from '#core/store/receipts/lookups.ts';
import { findProvider, lookupPaces } from '#providers/registry.ts';
import type { LookupAnswer } from '#providers/lookup.ts';
import { askAccount, resultOf, type AskAccountDeps } from './ask-account.ts';
import { settleAsked, type SettleAskedDeps } from './settle-asked.ts';

export type LookupsDeps = Omit<AskAccountDeps, 'signal'> &
  SettleAskedDeps & {
    readonly store: Pick<WorkerStore, 'takeLookups' | 'settleLookups'>;
    /** Duration of the lease of an account and its lookups, in milliseconds. */
    readonly leaseMs: number;
    /** Whether sends through the account must wait for its vendor to recover. */
    readonly isBlocked: (accountId: string) => boolean;
    readonly onAnswered: (due: DueLookup, result: LookupOutcome) => void;
    /** Called when the account is not asked for a while. */
    readonly onPaused: (of: DueLookup, pause: LookupPause) => void;
    readonly onFailed: (error: unknown) => void;
    /** Called when an account's turn has ended: receipts may wait to be applied, and another account can be taken. */
    readonly onEnded: () => void;
    readonly monotonicMs: MonotonicClock;
  };

/** Lookups at providers for messages that have been silent for too long. */
export type Lookups = {
  /** Begins the lookups that are due, as far as there is capacity. Does not wait for answers. */
  look(): Promise<void>;
  /** Pauses lookups of an account whose vendor has throttled a send, so that sends go first. */
  yieldToSends(accountId: string): void;
  /** Aborts the calls under way, and gives the lookups back. */
  stop(): Promise<void>;
};

/** With four lookups of each account, and with FAILING_AT_ONCE, a worker makes at most 36 lookups at once. */
const ANSWERING_AT_ONCE = 8;
/** Accounts whose last lookups failed are tried one at a time, in a slot of their own, so that they do not displace others. */
const FAILING_AT_ONCE = 1;
/** Pause of lookups at an account whose sends must wait. */
const YIELD_MS = 60_000;
const YIELDING_MAX = 20_000;

type Turn = { readonly isFailing: boolean; readonly ended: Promise<void> };

export function createLookups(deps: LookupsDeps): Lookups {
  const stopping = new AbortController();
  const turns = new Set<Turn>();
  const yielding = new LRUCache<string, true>({ max: YIELDING_MAX, ttl: YIELD_MS });

  function room(): Pick<LookupTerms, 'accountsMax' | 'failingMax'> {
    const failing = [...turns].filter(({ isFailing }) => isFailing).length;
    return {
      accountsMax: ANSWERING_AT_ONCE - (turns.size - failing),
      failingMax: FAILING_AT_ONCE - failing,
    };
  }

  async function look(): Promise<void> {
    while (!stopping.signal.aborted) {
      const terms = room();
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
    const begunAt = deps.monotonicMs();
    const asked = await askAccount(batch, { ...deps, signal: stopping.signal });
    // A call that the worker aborted is not a failure of the vendor.
    const isCut = ({ answer }: { readonly answer: LookupAnswer }): boolean =>
      stopping.signal.aborted && answer.kind === 'unanswered';
    const answered = asked.filter((one) => !isCut(one));
    const pause = decidePause(
      answered.map(({ answer }) => resultOf(answer)),
      first.failures,
    );
    const everyMs = findProvider(first.provider)?.lookup?.pace.everyMs ?? 0;
    const paceMs = everyMs * batch.length - Math.round(deps.monotonicMs() - begunAt);
    const pauseMs = Math.max(pause.pauseMs, paceMs, 0);
    await settleAsked(answered, { ...first, failures: pause.failures, pauseMs }, deps);
    const cut = asked.filter(isCut).map(({ due }) => due);
    if (cut.length > 0) await giveBack(cut, first, pauseMs);
    for (const { due, answer } of answered) deps.onAnswered(due, outcomeOf(answer));
    if (pause.reason !== null) deps.onPaused(first, pause);
  }

  /** Returns the lookups to the queue without having asked; any worker may take them again after `ms`. */
  async function giveBack(batch: readonly DueLookup[], first: DueLookup, ms: number): Promise<void> {
    const { accountId: account_id, turn, failures } = first;
    await deps.store.settleLookups({
      reports: [],
      found: [],
      done: [],
      again: batch.map(({ seq, asks }) => ({ seq, asks, ms, unasked: true })),
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
