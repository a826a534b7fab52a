import type { NewReceiptCall } from '#core/store/receipt-calls.ts';

export type CountedAccounts = {
  /** Accounts of these calls of which the database is to count what waits; the calls count as taken then. */
  readonly due: (calls: readonly Pick<NewReceiptCall, 'accountId' | 'body'>[]) => string[];
};

export type CountedAccountsOptions = {
  /** Milliseconds from any start. */
  readonly now: () => number;
  /** Calls that may come of an account before it is counted again. Default 250, of the 10,000 that may wait. */
  readonly callsMax?: number;
  /** Bytes likewise. Default 2 MiB, of 64. */
  readonly bytesMax?: number;
  /** What other processes store is seen after so long. Default a second. */
  readonly everyMs?: number;
};

/**
 * Says when to count what waits of an account. To count is to read all of it: with every commit it would cost more than
 * storing the calls.
 */
export function createCountedAccounts(options: CountedAccountsOptions): CountedAccounts {
  const { now, callsMax = 250, bytesMax = 2 * 1024 * 1024, everyMs = 1_000 } = options;
  /** Since the last count, by account; all of them are counted anew when the time is over. */
  let taken = new Map<string, { calls: number; bytes: number }>();
  let begunAt = Number.NEGATIVE_INFINITY;
  return {
    due(calls) {
      if (now() - begunAt >= everyMs) {
        taken = new Map();
        begunAt = now();
      }
      const accounts = new Set<string>();
      for (const { accountId, body } of calls) {
        let since = taken.get(accountId);
        if (since === undefined || since.calls >= callsMax || since.bytes + body.length > bytesMax) {
          accounts.add(accountId);
          since = { calls: 0, bytes: 0 };
          taken.set(accountId, since);
        }
        since.calls += 1;
        since.bytes += body.length;
      }
      return [...accounts];
    },
  };
}
