import { createDeliveryIds, type DeliveryIds } from '../webhooks/delivery-id.ts';
import { createEventIds, type EventIds } from '../webhooks/event-id.ts';
import { createMessageIds, type MessageIds } from './message-id.ts';

/** The codecs of all ids that hide places, with the same key. */
export type Ids = {
  readonly messages: MessageIds;
  readonly events: EventIds;
  readonly deliveries: DeliveryIds;
};

/**
 * Returns the codecs; loads the key on the first call.
 * @throws the error that prevented loading the key; the next call tries again.
 */
export type LoadIds = () => Promise<Ids>;

/**
 * Creates the loader. The key is in the database, which may be unavailable while a process starts, so it is loaded on first use.
 */
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
