/**
 * The states of a message and the moves between them. This table is authoritative: `services/ARCHITECTURE.md` draws it and a test
 * compares the two; `assertMove` rejects decisions that are not in it, and the SQL function `may_move`, generated from it,
 * rejects other moves in statements.
 */
export const MESSAGE_MOVES = {
  scheduled: ['queued', 'held', 'canceled', 'expired'],
  /**
   * Also `sent`, from `deferred` and `held` too: a report on an earlier call proves that the provider has the message. `unknown`,
   * from `deferred` too: no call follows one that got no answer.
   */
  queued: ['sending', 'sent', 'held', 'suppressed', 'failed', 'canceled', 'expired', 'unknown'],
  held: ['queued', 'scheduled', 'deferred', 'sent', 'canceled'],
  sending: ['sent', 'deferred', 'failed', 'unknown', 'queued'],
  deferred: ['sending', 'sent', 'held', 'suppressed', 'failed', 'canceled', 'expired', 'unknown'],
  /** `queued`: its provider did not report on it in time, and another account is to send it too. */
  sent: ['queued', 'delivered', 'undelivered', 'unknown'],
  unknown: ['sent', 'delivered', 'undelivered'],
  /** Only after a temporary failure, if the same attempt reports again. */
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
 * States in which a provider may still be called: the message has its row in `live_messages`, and in any other state in
 * `message_results`. Only the move from `sent` to `queued` leads back into these states.
 */
export const LIVE_STATES = [
  'scheduled',
  'queued',
  'held',
  'sending',
  'deferred',
] as const satisfies readonly MessageState[];

/** Whether a provider may still be called and no call is under way. */
export function isWaiting(state: MessageState): boolean {
  return state !== 'sending' && (LIVE_STATES as readonly MessageState[]).includes(state);
}

export function canMove(from: MessageState, to: MessageState): boolean {
  return (MESSAGE_MOVES[from] as readonly MessageState[]).includes(to);
}

/** Checks a decision of the code; a failure is a bug, not an input error. */
export function assertMove(from: MessageState, to: MessageState): void {
  if (!canMove(from, to)) throw new Error(`a message cannot move from ${from} to ${to}`);
}
