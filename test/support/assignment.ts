import type { Assignment } from '#core/store/sending/waiting-messages.ts';

/** Returns an assignment that moves a message to another account, as if its account had been disabled. */
export function assignmentOf(seq: number, from: string, to: string): Assignment {
  return { seq, from, rerouted: { accountId: to, version: 1, skipped: [] }, why: 'disabled', waitedMs: 0 };
}
