import type { Channel } from '../message/channel.ts';

/** Why a recipient is suppressed. */
export const SUPPRESSION_REASONS = ['hard_bounce', 'complaint', 'unsubscribe', 'opt_out', 'manual'] as const;
export type SuppressionReason = (typeof SUPPRESSION_REASONS)[number];

/** What the recipient does not get: any message, or messages of the category `marketing`. */
export const SUPPRESSION_SCOPES = ['all', 'marketing'] as const;
export type SuppressionScope = (typeof SUPPRESSION_SCOPES)[number];

/**
 * The source of an entry: a member of the tenant by a call or by an import, a provider by its report on a message or by its
 * answer to a call, or the recipient.
 */
export const SUPPRESSION_SOURCES = ['api', 'import', 'receipt', 'refusal', 'recipient'] as const;
export type SuppressionSource = (typeof SUPPRESSION_SOURCES)[number];

/** A recipient that a tenant's messages must not be sent to; there is one entry for each reason. */
export type Suppression = {
  readonly id: string;
  readonly channel: Channel;
  /** In its normal form; null if only its hash is stored. */
  readonly address: string | null;
  readonly reason: SuppressionReason;
  readonly scope: SuppressionScope;
  readonly source: SuppressionSource;
  /** The message that caused it. */
  readonly messageId: string | null;
  /** When the entry loses its effect; null: never. */
  readonly expiresAt: Date | null;
  readonly createdAt: Date;
};

/**
 * Returns the scope of a reason. A recipient who complains about marketing may still need a receipt or a code; after a bounce or
 * a legal opt-out nothing is sent.
 */
export function scopeOf(reason: SuppressionReason): SuppressionScope {
  return reason === 'complaint' || reason === 'unsubscribe' ? 'marketing' : 'all';
}
