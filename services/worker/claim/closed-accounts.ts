import type { ClosedReason } from '#core/domain/routing/skipped-account.ts';

/** Returns why an account cannot be called now; undefined if it can. */
export type WhyClosed = (accountId: string) => ClosedReason | undefined;

/** Evaluates each account once, so that all messages are decided about alike. */
export function closedAccounts(
  accounts: Iterable<{ readonly id: string }>,
  whyClosed: WhyClosed,
): Map<string, ClosedReason> {
  const closed = new Map<string, ClosedReason>();
  for (const { id } of accounts) {
    const why = whyClosed(id);
    if (why !== undefined) closed.set(id, why);
  }
  return closed;
}
