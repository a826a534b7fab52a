import { createFreshCache } from '../caches/fresh-cache.ts';

/**
 * Accounts whose backlog was just reported as full: their calls are refused without a query and without reading the body.
 */
export type FullAccounts = {
  readonly has: (accountId: string) => boolean;
  readonly note: (accountId: string) => void;
};

const ACCOUNTS_MAX = 10_000;
/** A worker may have processed some calls since. */
const FULL_MS = 1_000;

export function createFullAccounts(): FullAccounts {
  const full = createFreshCache<true>(ACCOUNTS_MAX, FULL_MS);
  return {
    has: (accountId) => full.peek(accountId) === true,
    note: (accountId) => void full.get(accountId, () => Promise.resolve(true)),
  };
}
