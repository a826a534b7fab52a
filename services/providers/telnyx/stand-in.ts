import { randomUUID } from 'node:crypto';
import { parseJson } from '../classify-error.ts';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';

/** Telnyx' messages and balance on loopback. */
export function startTelnyxStandIn(options: StandInOptions = {}): Promise<StandIn> {
  return startStandIn(answer, options);
}

function answer(request: Received): Reply | undefined {
  if (!request.path.startsWith('/v2/')) return undefined;
  if (!request.headers['authorization']?.startsWith('Bearer '))
    return failure(401, '10009', 'Authentication failed', 'Could not understand the provided credentials.');
  if (request.method === 'GET' && request.path === '/v2/balance') {
    const data = { record_type: 'balance', balance: '10.00', credit_limit: '0.00', currency: 'USD' };
    return { status: 200, body: { data: { ...data, available_credit: '10.00', pending: '0.00' } } };
  }
  return request.method === 'POST' && request.path === '/v2/messages' ? create(request) : undefined;
}

function create(request: Received): Reply {
  const sent = (parseJson(request.body) ?? {}) as Record<string, unknown>;
  const { from, to, text, messaging_profile_id, webhook_url } = sent;
  if (typeof to !== 'string' || !/^\+\d+$/.test(to))
    return failure(400, '40310', "Invalid 'to' address", "The 'to' address should be in +E.164 format.");
  if (from === undefined && messaging_profile_id === undefined)
    return failure(400, '40305', "Invalid 'from' address", "The 'from' address is missing.");
  if (typeof text !== 'string' || text === '')
    return failure(400, '40316', 'No content provided', 'The message has neither text nor media.');
  return {
    status: 200,
    body: {
      data: {
        record_type: 'message',
        direction: 'outbound',
        id: randomUUID(),
        type: 'SMS',
        messaging_profile_id: messaging_profile_id ?? randomUUID(),
        // Without a sender the profile takes a number of its pool.
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
      },
    },
  };
}

function failure(status: number, code: string, title: string, detail: string): Reply {
  const meta = { url: `https://developers.telnyx.com/docs/overview/errors/${code}` };
  return { status, body: { errors: [{ code, title, detail, meta }] } };
}
