import type { Outcome } from './outcome.ts';
import type { FailureClass } from './failure.ts';

/**
 * The meaning of a call's outcome for the account: the provider accepted the message, it refused a message that it would refuse
 * from any account (`refused`), or the account or its vendor failed.
 */
export const CALL_ENDS = ['accepted', 'refused', 'failed'] as const;
export type CallEnd = (typeof CALL_ENDS)[number];

/** A fault of the recipient or the content says nothing about the account. */
const OF_THE_MESSAGE: readonly FailureClass[] = [
  'invalid_recipient',
  'recipient_unavailable',
  'content_rejected',
];

export function callEndOf(outcome: Outcome): CallEnd {
  if (outcome.kind === 'accepted') return 'accepted';
  // Without an answer it is unknown whether the message was accepted.
  if (outcome.kind === 'ambiguous') return 'failed';
  return OF_THE_MESSAGE.includes(outcome.failure.class) ? 'refused' : 'failed';
}
