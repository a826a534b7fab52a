import { canMove, type MessageState } from '../message/message-state.ts';

/**
 * The result of a request to cancel a message. `cancel`: the message can be canceled, as no call is under way; `canceled`: it
 * already is, and repeating the request is no error; `sending`: a call is under way and cannot be undone; `final`: it was sent,
 * or has ended in another way.
 */
export type CancelVerdict = 'cancel' | 'canceled' | 'sending' | 'final';

/**
 * Decides about a cancel request.
 * @param state the state read under the lock of the message's row; a claim takes the same lock.
 */
export function decideCancel(state: MessageState): CancelVerdict {
  if (canMove(state, 'canceled')) return 'cancel';
  if (state === 'canceled' || state === 'sending') return state;
  return 'final';
}

/** The result of canceling many messages; each message is counted once. */
export type CancelCounts = {
  readonly canceled: number;
  readonly alreadySending: number;
  /** Messages that had ended, including those that were canceled before. */
  readonly final: number;
};

export const NO_CANCELS: CancelCounts = { canceled: 0, alreadySending: 0, final: 0 };

/**
 * Counts the results of a cancel request.
 * @param wished number of messages to be canceled.
 * @param found states of the live ones, read from their locked rows; those for which `decideCancel` allows it are canceled.
 */
export function countCancels(wished: number, found: Iterable<MessageState>): CancelCounts {
  const verdicts = [...found].map(decideCancel);
  const count = (verdict: CancelVerdict) => verdicts.filter((one) => one === verdict).length;
  const [canceled, alreadySending] = [count('cancel'), count('sending')];
  return { canceled, alreadySending, final: wished - canceled - alreadySending };
}

export function addCancels(a: CancelCounts, b: CancelCounts): CancelCounts {
  return {
    canceled: a.canceled + b.canceled,
    alreadySending: a.alreadySending + b.alreadySending,
    final: a.final + b.final,
  };
}
