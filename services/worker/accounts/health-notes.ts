import type { Breaker } from '#core/domain/sending/breaker.ts';

type Health = Breaker['health'];

/**
 * Returns a function that stores an account's health, with one write at a time for each account. A probe that succeeds changes the
 * health twice within milliseconds: two writes on two connections may be made in either order, and the earlier health would stay.
 * Of several changes during a write only the last one is stored.
 */
export function createHealthNotes(
  store: (accountId: string, health: Health) => Promise<void>,
  onFailed: (error: unknown) => void,
): (accountId: string, health: Health) => void {
  /** Accounts with a write under way, with the health to store after it; null: none. */
  const next = new Map<string, Health | null>();

  async function write(accountId: string, first: Health): Promise<void> {
    for (let health: Health | null = first; health !== null; health = next.get(accountId) ?? null) {
      next.set(accountId, null);
      await store(accountId, health).catch(onFailed);
    }
    next.delete(accountId);
  }

  return (accountId, health) => {
    if (next.has(accountId)) next.set(accountId, health);
    else void write(accountId, health);
  };
}
