import { setTimeout as delay } from 'node:timers/promises';
import type { ApiClient, Caller } from './api-client.ts';
import type { Delivery } from './first-messages.ts';
import type { ReceivedWebhook } from './webhook-receiver.ts';

/** A message's events as its tenant's own program received them. */
export type EventArrivals = {
  /** Number of events of the message. */
  readonly happened: number;
  /** Number of them that arrived with a valid signature. */
  readonly arrived: number;
};

type FeedEvent = {
  readonly id: string;
  readonly type: string;
  readonly data: { readonly messageId?: string };
};
type Feed = { readonly items: readonly FeedEvent[]; readonly nextCursor: string | null };

const WAIT_MS_MAX = 20_000;
/** These calls are rate-limited: polling must not use up the limit of a minute. */
const FEED_POLL_MS = 500;
const POLL_MS = 25;

/**
 * Waits up to 20 seconds until the receiver has every event of the messages, and returns how many arrived of each. The
 * tenant's feed says which events exist, up to the event of a message's last status.
 */
export async function awaitFirstEvents(
  api: ApiClient,
  viewer: Caller,
  messages: readonly Pick<Delivery, 'id' | 'status'>[],
  since: Date,
  received: () => readonly ReceivedWebhook[],
): Promise<ReadonlyMap<string, EventArrivals>> {
  const deadline = Date.now() + WAIT_MS_MAX;
  const until = async (isOver: () => Promise<boolean>, pollMs: number): Promise<void> => {
    while (!(await isOver()) && Date.now() < deadline) await delay(pollMs);
  };
  let events: readonly FeedEvent[] = [];
  const arrivalsOf = (): Map<string, EventArrivals> => {
    const genuine = new Set(
      received()
        .filter(({ signature }) => signature.verified)
        .map(({ headers }) => headers['webhook-id']),
    );
    return new Map(
      messages.map(({ id }) => {
        const own = events.filter(({ data }) => data.messageId === id);
        const arrived = own.filter((event) => genuine.has(event.id)).length;
        return [id, { happened: own.length, arrived }];
      }),
    );
  };
  await until(async () => {
    events = await eventsSince(api, viewer, since);
    return messages.every(({ id, status }) =>
      events.some(({ type, data }) => data.messageId === id && type === `message.${status}`),
    );
  }, FEED_POLL_MS);
  await until(async () => [...arrivalsOf().values()].every(isTold), POLL_MS);
  return arrivalsOf();
}

async function eventsSince(api: ApiClient, viewer: Caller, since: Date): Promise<FeedEvent[]> {
  const events: FeedEvent[] = [];
  const query = `type=message.*&limit=200&since=${encodeURIComponent(since.toISOString())}`;
  for (let cursor: string | null = ''; cursor !== null;) {
    const page: string = cursor === '' ? '' : `&cursor=${encodeURIComponent(cursor)}`;
    const feed: Feed = await api.call<Feed>(viewer, 'GET', `/v1/admin/events?${query}${page}`);
    events.push(...feed.items);
    cursor = feed.nextCursor;
  }
  return events;
}

/** Returns whether all of a message's events arrived, and there are any. */
export function isTold(arrivals: EventArrivals | undefined): boolean {
  return arrivals !== undefined && arrivals.happened > 0 && arrivals.arrived === arrivals.happened;
}
