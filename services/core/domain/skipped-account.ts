/**
 * Why an account that was considered for a message was not to send it. `ambiguous_elsewhere`: another one may have sent it, as
 * its call had no answer. `not_in_route`: it was called, and has been taken out of the route since.
 */
export const SKIPPED_REASONS = [
  'disabled',
  'invalid',
  'breaker_open',
  'rate_used_up',
  'ambiguous_elsewhere',
  'not_in_route',
  'suppressed',
] as const;
export type SkippedReason = (typeof SKIPPED_REASONS)[number];

export type SkippedAccount = { readonly accountId: string; readonly reason: SkippedReason };

/** Why an account cannot be called now, as the worker that asks knows it. */
export type ClosedReason = Extract<SkippedReason, 'breaker_open' | 'rate_used_up'>;

/** Why a message that was sent before, and is to go out through another account as well, is not sent by that one after all. */
export type UnsentReason = 'expired' | 'suppressed' | 'disabled' | 'unknown';

/** Why a message that waits goes on to another account. */
export const LEFT_REASONS = [
  'disabled',
  'invalid',
  'breaker_open',
  'rate_used_up',
] as const satisfies readonly SkippedReason[];
export type LeftReason = (typeof LEFT_REASONS)[number];
