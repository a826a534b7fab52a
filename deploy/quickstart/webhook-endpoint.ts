import { isDeepStrictEqual } from 'node:util';
import type { ApiClient, Caller } from './api-client.ts';

type EndpointView = {
  readonly id: string;
  readonly url: string;
  readonly description: string | null;
  readonly status: string;
};

const PATH = '/v1/admin/webhook-endpoints';
/** Identifies the endpoint when the receiver is on another port. */
const DESCRIPTION = 'Local receiver';
/** All events, signed with every scheme. */
const SETTINGS = {
  eventTypes: ['*'],
  finalOnly: false,
  channels: [],
  tags: [],
  rateLimitPerSecond: null,
  signatures: ['v1', 'v1a'],
};

/** Creates the tenant's endpoint at the receiver, or repairs later changes to it. */
export async function ensureEndpoint(api: ApiClient, owner: Caller, url: string): Promise<void> {
  const wanted = { url, description: DESCRIPTION, ...SETTINGS };
  const { items } = await api.call<{ items: EndpointView[] }>(owner, 'GET', `${PATH}?limit=200`);
  const known = items.find((item) => item.url === url || item.description === DESCRIPTION);
  if (known === undefined) {
    await api.call(owner, 'POST', PATH, wanted);
    return;
  }
  const { id, status } = known;
  const isWanted = Object.entries(wanted).every(([name, value]) =>
    isDeepStrictEqual((known as Readonly<Record<string, unknown>>)[name], value),
  );
  if (!isWanted) await api.call(owner, 'PATCH', `${PATH}/${id}`, wanted);
  if (status === 'paused' || status === 'disabled') await api.call(owner, 'POST', `${PATH}/${id}/resume`);
}
