import { canMove, type MessageState } from './message-state.ts';

/**
 * What a wish to cancel a message comes to. `cancel`: it can be, as no call is under way for it; `canceled`: it is already,
 * and to ask twice is no fault; `sending`: a call is under way, and nobody can take that back; `final`: it was sent, or has
 * come to another end.
 */
export type CancelVerdict = 'cancel' | 'canceled' | 'sending' | 'final';

/** @param state as it was found under the lock of the message's row: a claim takes the same lock. */
export function decideCancel(state: MessageState): CancelVerdict {
  if (canMove(state, 'canceled')) return 'cancel';
  if (state === 'canceled' || state === 'sending') return state;
  return 'final';
}

/** What came of many wishes: each of the messages is counted once. */
export type CancelCounts = {
  readonly canceled: number;
  readonly alreadySending: number;
  /** They have come to an end, another cancel among these. */
  readonly final: number;
};

export const NO_CANCELS: CancelCounts = { canceled: 0, alreadySending: 0, final: 0 };

/**
 * @param wished how many messages were to be canceled.
 * @param found the states of those that were live, as their locked rows said: where `decideCancel` lets it be, one is canceled.
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
