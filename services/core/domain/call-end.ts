import type { Outcome } from './outcome.ts';
import type { FailureClass } from './failure.ts';

/**
 * How a call to a provider speaks of the account: it accepted the message, it refused one that no account would take
 * (`refused`), or the account or its vendor failed it.
 */
export const CALL_ENDS = ['accepted', 'refused', 'failed'] as const;
export type CallEnd = (typeof CALL_ENDS)[number];

/** What is wrong with the recipient or the content says nothing about the account. */
const OF_THE_MESSAGE: readonly FailureClass[] = [
  'invalid_recipient',
  'recipient_unavailable',
  'content_rejected',
];

export function callEndOf(outcome: Outcome): CallEnd {
  if (outcome.kind === 'accepted') return 'accepted';
  // Without an answer nobody knows whether the message was taken.
  if (outcome.kind === 'ambiguous') return 'failed';
  return OF_THE_MESSAGE.includes(outcome.failure.class) ? 'refused' : 'failed';
}
