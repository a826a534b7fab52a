import { LRUCache } from 'lru-cache';
import { timingSafeEqual } from 'node:crypto';
import { readReceiptToken, type ReceiptKey } from '#core/domain/receipts/receipt-token.ts';

/** Returns the version of an account's token; undefined for any other text. `accountId` in lower case. */
export type ReadToken = (accountId: string, token: string) => number | undefined;

type Proven = { readonly token: Buffer; readonly version: number };

const ACCOUNTS_MAX = 20_000;

/**
 * Reads tokens like `readReceiptToken` and caches the last valid token of each account, because a vendor uses the same one
 * for every call. Invalid tokens are not cached and always take the same time.
 */
export function createReadToken(key: ReceiptKey): ReadToken {
  const proven = new LRUCache<string, Proven>({ max: ACCOUNTS_MAX });
  return (accountId, token) => {
    const known = proven.get(accountId);
    if (known !== undefined && isSame(known.token, Buffer.from(token))) return known.version;
    const version = readReceiptToken(key, accountId, token);
    if (version !== undefined) proven.set(accountId, { token: Buffer.from(token), version });
    return version;
  };
}

function isSame(known: Buffer, given: Buffer): boolean {
  return known.length === given.length && timingSafeEqual(known, given);
}
