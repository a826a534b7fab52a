import type { MessageState } from '../message/message-state.ts';

/** States in which the message is not pursued any more and is not known to have arrived. */
export const RETRYABLE_STATES = ['failed', 'undelivered', 'unknown', 'expired'] as const;

/**
 * The result of a request to send a message again as a new one. `state`: the message may still arrive, has arrived, or was
 * canceled; `content`: its content is deleted.
 */
export type RetryVerdict = 'retry' | 'state' | 'content';

export function decideRetry(state: MessageState, hasContent: boolean): RetryVerdict {
  if (!(RETRYABLE_STATES as readonly MessageState[]).includes(state)) return 'state';
  return hasContent ? 'retry' : 'content';
}
