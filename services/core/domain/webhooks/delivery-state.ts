/**
 * The states of a delivery, one event for one endpoint, and the moves between them. No row stores them: the state is derived from
 * the due row and the log of calls (`core/store/webhooks/endpoint-deliveries.ts`). `services/ARCHITECTURE.md` draws this table. A test
 * runs deliveries through all actions of workers and people and checks that exactly these moves occur.
 */
export const DELIVERY_MOVES = {
  /** No call has failed, or none since the last success. */
  pending: ['in_flight'],
  /** A worker has claimed it. It moves back if no call was made, or if the worker's lease has ended. */
  in_flight: ['pending', 'retrying', 'succeeded', 'exhausted'],
  /** A call has failed, and there will be another one. */
  retrying: ['in_flight'],
  /** A person requests a redelivery; `retrying` if the last call, also a requested one, has failed. */
  succeeded: ['pending', 'retrying'],
  /** The last call of the schedule has failed; a person may request a redelivery. */
  exhausted: ['retrying'],
} as const satisfies Record<string, readonly string[]>;

export type DeliveryStatus = keyof typeof DELIVERY_MOVES;
export const DELIVERY_STATUSES = Object.keys(DELIVERY_MOVES) as [DeliveryStatus, ...DeliveryStatus[]];
