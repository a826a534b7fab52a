import { NOT_STARTED_REASONS } from '../sending/outcome.ts';
import { SUPPRESSION_REASONS } from '../recipient/suppression.ts';

/**
 * Why a message is in its state, if the state alone does not say it. Includes reasons that are not used yet, because a client
 * generated from the API document rejects unknown values.
 */
export const STATUS_REASONS = [
  ...NOT_STARTED_REASONS,
  'retry',
  'failed_over',
  'no_retry_left',
  'provider_not_ready',
  'provider_throttled',
  'ambiguous_attempt',
  'receipt_timeout',
  'no_other_account',
  'abuse_brake',
  ...SUPPRESSION_REASONS,
] as const;
export type StatusReason = (typeof STATUS_REASONS)[number];
