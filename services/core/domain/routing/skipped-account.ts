/**
 * Why an account that was considered for a message did not send it. `ambiguous_elsewhere`: another account may have sent it,
 * because its call was ambiguous. `not_in_route`: the account was called, and has been removed from the route since.
 * `asked_to_wait`: it refused the message in an earlier round, and the wait that it requested is not over.
 */
export const SKIPPED_REASONS = [
  'disabled',
  'invalid',
  'breaker_open',
  'rate_used_up',
  'ambiguous_elsewhere',
  'not_in_route',
  'asked_to_wait',
  'suppressed',
] as const;
export type SkippedReason = (typeof SKIPPED_REASONS)[number];

export type SkippedAccount = { readonly accountId: string; readonly reason: SkippedReason };

/** Why an account cannot be called now, as known by the asking worker. */
export type ClosedReason = Extract<SkippedReason, 'breaker_open' | 'rate_used_up'>;

/**
 * Why another account does not send a message that was already sent, although the message moved to it after a receipt timeout.
 */
export type UnsentReason = 'expired' | 'suppressed' | 'disabled' | 'unknown';

/** Why a waiting message moves to another account. */
export const LEFT_REASONS = [
  'disabled',
  'invalid',
  'breaker_open',
  'rate_used_up',
] as const satisfies readonly SkippedReason[];
export type LeftReason = (typeof LEFT_REASONS)[number];

/** An account of the tenant that is neither disabled nor deleted. */
export type EnabledAccount = { readonly id: string; readonly channel: string; readonly status: string };

/**
 * Returns why a step of a route cannot send a message of the channel now; undefined if it can.
 * @param accounts the tenant's accounts that are neither disabled nor deleted.
 * @param closed accounts that cannot be called now.
 */
export function skippedBecause(
  step: string,
  channel: string,
  accounts: readonly EnabledAccount[],
  closed: ReadonlyMap<string, ClosedReason>,
): LeftReason | undefined {
  const account = accounts.find((one) => one.id === step && one.channel === channel);
  if (account === undefined) return 'disabled';
  return account.status === 'invalid' ? 'invalid' : closed.get(step);
}
