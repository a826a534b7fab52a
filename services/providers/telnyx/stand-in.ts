import { randomUUID } from 'node:crypto';
import { parseJson } from '../classify-error.ts';
import { createStandInMemory, type StandInMemory } from '../stand-in-memory.ts';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { STAND_IN_PUBLIC_KEY } from './stand-in-key.ts';
import { telnyxReporter } from './stand-in-reports.ts';

/** Starts Telnyx's messages and balance resources on loopback. */
export function startTelnyxStandIn(options: StandInOptions = {}): Promise<StandIn> {
  const taken: Taken = createStandInMemory();
  return startStandIn((request) => answer(request, taken), options, reportsBy(telnyxReporter));
}

/** Accepted messages by id. */
type Taken = StandInMemory<Readonly<Record<string, unknown>>>;

function answer(request: Received, taken: Taken): Reply | undefined {
  if (!request.path.startsWith('/v2/')) return undefined;
  if (!request.headers['authorization']?.startsWith('Bearer '))
    return failure(401, '10009', 'Authentication failed', 'Could not understand the provided credentials.');
  if (request.method === 'GET' && request.path === '/v2/balance') {
    const data = { record_type: 'balance', balance: '10.00', credit_limit: '0.00', currency: 'USD' };
    return { status: 200, body: { data: { ...data, available_credit: '10.00', pending: '0.00' } } };
  }
  const asked = /^\/v2\/messages\/([^/?]+)$/.exec(request.path)?.[1];
  if (request.method === 'GET' && asked !== undefined) return show(taken.find(asked));
  // https://developers.telnyx.com/api-reference/public-key/retrieve: the key that verifies Telnyx's webhooks.
  if (request.method === 'GET' && request.path === '/v2/public_key')
    return { status: 200, body: { data: { public: STAND_IN_PUBLIC_KEY } } };
  return request.method === 'POST' && request.path === '/v2/messages' ? create(request, taken) : undefined;
}

/** Every accepted message counts as delivered by the time of the lookup. */
function show(message: Readonly<Record<string, unknown>> | undefined): Reply {
  if (message === undefined)
    return failure(404, '10005', 'Resource not found', 'The requested resource or URL could not be found.');
  const now = new Date().toISOString();
  const [to] = message['to'] as readonly object[];
  const delivered = {
    to: [{ ...to, status: 'delivered', updated_at: now }],
    sent_at: now,
    completed_at: now,
  };
  return { status: 200, body: { data: { ...message, ...delivered } } };
}

function create(request: Received, taken: Taken): Reply {
  const sent = (parseJson(request.body) ?? {}) as Record<string, unknown>;
  const { from, to, text, messaging_profile_id, webhook_url } = sent;
  if (typeof to !== 'string' || !/^\+\d+$/.test(to))
    return failure(400, '40310', "Invalid 'to' address", "The 'to' address should be in +E.164 format.");
  if (from === undefined && messaging_profile_id === undefined)
    return failure(400, '40305', "Invalid 'from' address", "The 'from' address is missing.");
  if (typeof text !== 'string' || text === '')
    return failure(400, '40316', 'No content provided', 'The message has neither text nor media.');
  const id = randomUUID();
  const data = {
    record_type: 'message',
    direction: 'outbound',
    id,
    type: 'SMS',
    messaging_profile_id: messaging_profile_id ?? randomUUID(),
    // Without a sender, the profile picks a number from its pool.
    from: { phone_number: from ?? '+15005550000', carrier: 'Telnyx', line_type: 'Wireless' },
    to: [{ phone_number: to, status: 'queued', carrier: '', line_type: '' }],
    text,
    webhook_url: webhook_url ?? null,
    webhook_failover_url: null,
    encoding: 'GSM-7',
    parts: 1,
    received_at: new Date().toISOString(),
    sent_at: null,
    completed_at: null,
    cost: null,
    errors: [],
  };
  taken.keep(id, data);
  return { status: 200, body: { data } };
}

function failure(status: number, code: string, title: string, detail: string): Reply {
  const meta = { url: `https://developers.telnyx.com/docs/overview/errors/${code}` };
  return { status, body: { errors: [{ code, title, detail, meta }] } };
}
