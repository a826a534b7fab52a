/**
 * The states of a message and the moves between them. This table is the law: `services/ARCHITECTURE.md` draws it, a test
 * compares the two, `assertMove` refuses a decision that is not in it, and the SQL function `may_move`, which is generated
 * from it, whatever a statement would do beyond it.
 */
export const MESSAGE_MOVES = {
  scheduled: ['queued', 'held', 'canceled', 'expired'],
  /** Also `sent`, and so `deferred` and `held`: a report on an earlier call shows that the provider has the message. */
  queued: ['sending', 'sent', 'held', 'suppressed', 'failed', 'canceled', 'expired'],
  held: ['queued', 'scheduled', 'deferred', 'sent', 'canceled'],
  sending: ['sent', 'deferred', 'failed', 'unknown', 'queued'],
  deferred: ['sending', 'sent', 'held', 'suppressed', 'failed', 'canceled', 'expired'],
  /** `queued`: its provider has not reported on it in time, and another account is to send it too. */
  sent: ['queued', 'delivered', 'undelivered', 'unknown'],
  unknown: ['sent', 'delivered', 'undelivered'],
  /** Only for a temporary failure, when the same attempt reports again. */
  undelivered: ['delivered'],
  delivered: [],
  failed: [],
  expired: [],
  canceled: [],
  suppressed: [],
} as const satisfies Record<string, readonly string[]>;

export type MessageState = keyof typeof MESSAGE_MOVES;
export const MESSAGE_STATES = Object.keys(MESSAGE_MOVES) as MessageState[];

/**
 * A provider may still be called: the message has its row in `live_messages`, in any other state in `message_results`. What has
 * left these states comes back to them by one move alone, from `sent` to `queued`.
 */
export const LIVE_STATES = [
  'scheduled',
  'queued',
  'held',
  'sending',
  'deferred',
] as const satisfies readonly MessageState[];

/** A provider may still be called, and none is being called. */
export function isWaiting(state: MessageState): boolean {
  return state !== 'sending' && (LIVE_STATES as readonly MessageState[]).includes(state);
}

export function canMove(from: MessageState, to: MessageState): boolean {
  return (MESSAGE_MOVES[from] as readonly MessageState[]).includes(to);
}

/** Guards a decision of ours; a refusal is a bug, not an input error. */
export function assertMove(from: MessageState, to: MessageState): void {
  if (!canMove(from, to)) throw new Error(`a message cannot move from ${from} to ${to}`);
}
