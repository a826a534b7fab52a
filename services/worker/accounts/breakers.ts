import { CLOSED, forceOpen, admission, note, startProbe, type Breaker } from '#core/domain/breaker.ts';

/** The breakers of the provider accounts that this process calls. */
export type Breakers = {
  /** Asks for one call; `probe` is given to one caller at a time. */
  enter(accountId: string, provider: string): 'pass' | 'probe' | 'blocked';
  /** @param fault the provider's own failure. */
  note(accountId: string, fault: boolean): void;
  /** The account's credential is refused: calls wait, probes find out when it is fixed. */
  open(accountId: string): void;
  /** The account was fixed: calls go on at once. */
  reset(accountId: string): void;
  /** When the next probe may go, in ms since the epoch; 0 where no call has to wait. */
  blockedUntil(accountId: string): number;
  health(accountId: string): Breaker['health'];
};

type Health = Breaker['health'];

/**
 * @param onHealth told of every change of an account's health.
 * @param now milliseconds since the epoch.
 */
export function createBreakers(
  onHealth: (accountId: string, provider: string, before: Health, after: Health) => void,
  now: () => number,
): Breakers {
  const breakers = new Map<string, Breaker>();
  /** Catalog ids of the accounts that were called, for those who are told. */
  const providers = new Map<string, string>();

  function put(accountId: string, next: Breaker): void {
    const before = breakers.get(accountId)?.health ?? 'healthy';
    if (next === CLOSED) breakers.delete(accountId);
    else breakers.set(accountId, next);
    if (next.health === before) return;
    onHealth(accountId, providers.get(accountId) ?? 'unknown', before, next.health);
  }

  const of = (accountId: string) => breakers.get(accountId) ?? CLOSED;

  return {
    enter(accountId, provider) {
      providers.set(accountId, provider);
      const verdict = admission(of(accountId), now());
      if (verdict === 'probe') put(accountId, startProbe(of(accountId), now()));
      return verdict;
    },
    note: (accountId, fault) => put(accountId, note(of(accountId), fault, now())),
    open: (accountId) => put(accountId, forceOpen(of(accountId), now())),
    reset: (accountId) => put(accountId, CLOSED),
    blockedUntil: (accountId) => (admission(of(accountId), now()) === 'blocked' ? of(accountId).probeAt : 0),
    health: (accountId) => of(accountId).health,
  };
}
