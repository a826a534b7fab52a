import type { MonotonicClock } from '#core/domain/clock.ts';
import type { NewReceiptCall } from '#core/store/receipts/receipt-calls.ts';

export type CountedAccounts = {
  /** Returns the accounts of these calls whose backlog the database should count, and records the calls as taken. */
  readonly due: (calls: readonly Pick<NewReceiptCall, 'accountId' | 'body'>[]) => string[];
};

export type CountedAccountsOptions = {
  /** Milliseconds from any origin. */
  readonly monotonicMs: MonotonicClock;
  /** Calls that may arrive for an account before its backlog is counted again. Default 250, of the 10,000 that may wait. */
  readonly callsMax?: number;
  /** The same limit in bytes. Default 2 MiB, of 64 MiB. */
  readonly bytesMax?: number;
  /** Calls stored by other processes are noticed after this time. Default one second. */
  readonly everyMs?: number;
};

/**
 * Decides when to count an account's backlog. A count reads the whole backlog, so counting with every commit would cost
 * more than storing the calls.
 */
export function createCountedAccounts(options: CountedAccountsOptions): CountedAccounts {
  const { monotonicMs, callsMax = 250, bytesMax = 2 * 1024 * 1024, everyMs = 1_000 } = options;
  /** Per account since the last count; after `everyMs` all accounts are counted again. */
  let taken = new Map<string, { calls: number; bytes: number }>();
  let begunAt = Number.NEGATIVE_INFINITY;
  return {
    due(calls) {
      if (monotonicMs() - begunAt >= everyMs) {
        taken = new Map();
        begunAt = monotonicMs();
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
