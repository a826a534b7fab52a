import type { Channel } from './channel.ts';

/** Why a recipient gets nothing. */
export const SUPPRESSION_REASONS = ['hard_bounce', 'complaint', 'unsubscribe', 'opt_out', 'manual'] as const;
export type SuppressionReason = (typeof SUPPRESSION_REASONS)[number];

/** What it gets none of: anything, or messages of the category `marketing`. */
export const SUPPRESSION_SCOPES = ['all', 'marketing'] as const;
export type SuppressionScope = (typeof SUPPRESSION_SCOPES)[number];

/**
 * Who says so: a member of the tenant by a call or by an import, a provider by its report on a message or by its answer to a
 * call, or the recipient.
 */
export const SUPPRESSION_SOURCES = ['api', 'import', 'receipt', 'refusal', 'recipient'] as const;
export type SuppressionSource = (typeof SUPPRESSION_SOURCES)[number];

/** Recipients that a tenant's messages must not go to; one entry for each reason. */
export type Suppression = {
  readonly id: string;
  readonly channel: Channel;
  /** In its normal form; null where only its hash is kept. */
  readonly address: string | null;
  readonly reason: SuppressionReason;
  readonly scope: SuppressionScope;
  readonly source: SuppressionSource;
  /** The message that caused it. */
  readonly messageId: string | null;
  /** From then on it counts for nothing; null: never. */
  readonly expiresAt: Date | null;
  readonly createdAt: Date;
};

/** Whom marketing annoys may still need a receipt or a code; where nothing arrives, or the law says so, nothing is sent. */
export function scopeOf(reason: SuppressionReason): SuppressionScope {
  return reason === 'complaint' || reason === 'unsubscribe' ? 'marketing' : 'all';
}
