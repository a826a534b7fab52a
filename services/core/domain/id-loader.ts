import { createDeliveryIds, type DeliveryIds } from './delivery-id.ts';
import { createEventIds, type EventIds } from './event-id.ts';
import { createMessageIds, type MessageIds } from './message-id.ts';

/** The ids that hide places, all by one key. */
export type Ids = {
  readonly messages: MessageIds;
  readonly events: EventIds;
  readonly deliveries: DeliveryIds;
};

/** @throws what kept the key from being loaded; the next call tries again. */
export type LoadIds = () => Promise<Ids>;

/** The key is in the database, which may be away while a process starts: it is loaded when it is first needed. */
export function createIdLoader(loadKey: () => Promise<Buffer>): LoadIds {
  let ids: Promise<Ids> | undefined;
  return () => {
    ids ??= loadKey().then(
      (key) => ({
        messages: createMessageIds(key),
        events: createEventIds(key),
        deliveries: createDeliveryIds(key),
      }),
      (error: unknown) => {
        ids = undefined;
        throw error;
      },
    );
    return ids;
  };
}
