/** Why an account that was considered for a message was not to send it. */
export const SKIPPED_REASONS = ['disabled', 'invalid', 'breaker_open', 'rate_used_up'] as const;
export type SkippedReason = (typeof SKIPPED_REASONS)[number];

export type SkippedAccount = { readonly accountId: string; readonly reason: SkippedReason };

/** Why an account cannot be called now, as the worker that asks knows it. */
export type ClosedReason = Extract<SkippedReason, 'breaker_open' | 'rate_used_up'>;
