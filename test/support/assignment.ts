import type { Assignment } from '#core/store/deliveries.ts';

/** Puts a message into the queue of another account, as for one that was disabled. */
export function assignmentOf(seq: number, from: string, to: string): Assignment {
  return { seq, from, rerouted: { accountId: to, version: 1, skipped: [] }, why: 'disabled', waitedMs: 0 };
}
