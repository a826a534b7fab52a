import { LRUCache } from 'lru-cache';
import type { MonotonicClock } from '#core/domain/clock.ts';
import {
  CLOSED_BREAKER,
  forceOpen,
  admission,
  note,
  startProbe,
  type Breaker,
} from '#core/domain/sending/breaker.ts';

/** Circuit breakers of the provider accounts that this process calls. */
export type Breakers = {
  /** Asks for permission to make one call; `probe` is returned to one caller at a time. */
  enter(accountId: string, provider: string): 'pass' | 'probe' | 'blocked';
  /**
   * Records the end of a call.
   * @param call `fault`: whether the provider itself failed. `isProbe`: whether the call was admitted as a probe.
   */
  note(
    accountId: string,
    provider: string,
    call: { readonly fault: boolean; readonly isProbe: boolean },
  ): void;
  /** Opens the breaker, unless it is open, because the credential was refused. Calls wait; probes detect when the credential works again. */
  open(accountId: string, provider: string): void;
  /** Closes the breaker because the account was fixed or deleted; calls continue at once. */
  reset(accountId: string): void;
  /** When the next probe may be made, in ms of the breakers' clock; 0 if calls need not wait. */
  blockedUntil(accountId: string): number;
  health(accountId: string): Health;
  /** For how long the breaker has been closed, in ms: 0 if it is not, Infinity if it is not known to have been open. */
  closedForMs(accountId: string): number;
  /** Accounts whose calls wait now, by provider and health. Accounts that no message has needed recently are left out. */
  counts(): readonly BreakerCount[];
  /** Sets the function that is called for every change of an account's health. */
  onHealth(listener: OnHealth): void;
};

type OnHealth = (accountId: string, provider: string, health: Health) => void;

type Health = Breaker['health'];

/** `value`: the number of accounts. */
export type BreakerCount = {
  readonly labels: { readonly provider: string; readonly state: Exclude<Health, 'healthy'> };
  readonly value: number;
};

/** `movedAt`: when a call or a probe last updated the breaker, in milliseconds of the breakers' clock. */
type Entry = { readonly provider: string; readonly breaker: Breaker; readonly movedAt: number };

/**
 * An account with waiting messages is probed at least once a minute. One without a probe for this long has no waiting messages.
 */
const PROBED_WITHIN_MS = 5 * 60_000;
/** Beyond this number the least recently called accounts are evicted and start again with a closed breaker. */
const ACCOUNTS_MAX = 50_000;

/** Creates the breakers of this process. */
export function createBreakers(monotonicMs: MonotonicClock): Breakers {
  let onHealth: OnHealth = () => undefined;
  /** Also contains healthy accounts, for as long as calls of the last minute count. */
  const entries = new LRUCache<string, Entry>({
    max: ACCOUNTS_MAX,
    dispose: ({ provider, breaker }, accountId, reason) => {
      if (reason === 'evict' && breaker.health !== 'healthy') onHealth(accountId, provider, 'healthy');
    },
  });

  /** When the breakers closed, by their clock. */
  const closedAt = new LRUCache<string, number>({ max: ACCOUNTS_MAX });

  const of = (accountId: string): Breaker => entries.get(accountId)?.breaker ?? CLOSED_BREAKER;

  function put(accountId: string, provider: string, next: Breaker): void {
    const before = of(accountId).health;
    if (next === of(accountId)) return;
    if (next === CLOSED_BREAKER) entries.delete(accountId);
    else entries.set(accountId, { provider, breaker: next, movedAt: monotonicMs() });
    if (next.health === before) return;
    if (next.health === 'healthy') closedAt.set(accountId, monotonicMs());
    onHealth(accountId, provider, next.health);
  }

  return {
    enter(accountId, provider) {
      const verdict = admission(of(accountId), monotonicMs());
      if (verdict === 'probe') put(accountId, provider, startProbe(of(accountId), monotonicMs()));
      return verdict;
    },
    note: (accountId, provider, call) => put(accountId, provider, note(of(accountId), call, monotonicMs())),
    open: (accountId, provider) => put(accountId, provider, forceOpen(of(accountId), monotonicMs())),
    reset(accountId) {
      const known = entries.peek(accountId);
      if (known !== undefined) put(accountId, known.provider, CLOSED_BREAKER);
    },
    blockedUntil(accountId) {
      const breaker = of(accountId);
      return admission(breaker, monotonicMs()) === 'blocked' ? breaker.probeAt : 0;
    },
    health: (accountId) => of(accountId).health,
    closedForMs: (accountId) =>
      of(accountId).health === 'healthy'
        ? monotonicMs() - (closedAt.get(accountId) ?? Number.NEGATIVE_INFINITY)
        : 0,
    counts() {
      const accounts = new Map<string, BreakerCount>();
      for (const { provider, breaker, movedAt } of entries.values()) {
        if (breaker.health === 'healthy' || monotonicMs() - movedAt > PROBED_WITHIN_MS) continue;
        const key = `${provider} ${breaker.health}`;
        const counted = accounts.get(key)?.value ?? 0;
        accounts.set(key, { labels: { provider, state: breaker.health }, value: counted + 1 });
      }
      return [...accounts.values()];
    },
    onHealth: (listener) => void (onHealth = listener),
  };
}
