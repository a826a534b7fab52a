/**
 * The states of a delivery, one event for one endpoint, and the moves between them. No row stores them: a state is read off
 * the due row and the log of calls (`core/store/endpoint-deliveries.ts`). `services/ARCHITECTURE.md` draws this table, and a
 * test takes deliveries through all that workers and people do with them, and sees these moves, each of them and no other.
 */
export const DELIVERY_MOVES = {
  /** No call has failed, or none since it last succeeded. */
  pending: ['in_flight'],
  /** A worker has it. Back where it was: nobody called, or the worker's lease is over. */
  in_flight: ['pending', 'retrying', 'succeeded', 'exhausted'],
  /** A call has failed, and there will be another one. */
  retrying: ['in_flight'],
  /** A person has it delivered again; `retrying` where the last call, which one had asked for too, has failed. */
  succeeded: ['pending', 'retrying'],
  /** The last call of the schedule has failed; a person has it delivered again. */
  exhausted: ['retrying'],
} as const satisfies Record<string, readonly string[]>;

export type DeliveryStatus = keyof typeof DELIVERY_MOVES;
export const DELIVERY_STATUSES = Object.keys(DELIVERY_MOVES) as [DeliveryStatus, ...DeliveryStatus[]];
