import type { MessageState } from './message-state.ts';

/** Where nothing more is done for a message, and it has not arrived as far as anybody knows. */
export const RETRYABLE_STATES = ['failed', 'undelivered', 'unknown', 'expired'] as const;

/**
 * What a wish to send a message again as a new one comes to. `state`: it may still arrive by itself, has arrived, or was
 * taken back; `content`: what it said is gone.
 */
export type RetryVerdict = 'retry' | 'state' | 'content';

export function decideRetry(state: MessageState, hasContent: boolean): RetryVerdict {
  if (!(RETRYABLE_STATES as readonly MessageState[]).includes(state)) return 'state';
  return hasContent ? 'retry' : 'content';
}
