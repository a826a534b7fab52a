import { randomBytes } from 'node:crypto';
import { parseJson } from '../classify-error.ts';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';

/** MessageBird's messages and balance on loopback. */
export function startMessagebirdStandIn(options: StandInOptions = {}): Promise<StandIn> {
  return startStandIn(answer, options);
}

function answer(request: Received): Reply | undefined {
  if (!request.headers['authorization']?.startsWith('AccessKey '))
    return failure(401, 2, 'Request not allowed (incorrect access_key)', 'access_key');
  if (request.method === 'GET' && request.path === '/balance')
    return { status: 200, body: { payment: 'prepaid', type: 'euros', amount: 10 } };
  return request.method === 'POST' && request.path === '/messages' ? create(request) : undefined;
}

function create(request: Received): Reply {
  const sent = (parseJson(request.body) ?? {}) as Record<string, unknown>;
  for (const name of ['originator', 'recipients', 'body']) {
    if (!sent[name]) return failure(422, 9, `no (correct) ${name} found`, name);
  }
  const recipients = [sent['recipients']].flat().map(String);
  if (!recipients.every((one) => /^\d{5,15}$/.test(one)))
    return failure(422, 9, 'no (correct) recipients found', 'recipients');
  const now = new Date().toISOString().replace(/\.\d+Z$/, '+00:00');
  const id = randomBytes(16).toString('hex');
  return {
    status: 201,
    body: {
      id,
      href: `https://rest.messagebird.com/messages/${id}`,
      direction: 'mt',
      type: 'sms',
      originator: sent['originator'],
      body: sent['body'],
      reference: sent['reference'] ?? null,
      reportUrl: sent['reportUrl'] ?? null,
      validity: sent['validity'] ?? null,
      gateway: 10,
      typeDetails: {},
      datacoding: 'plain',
      mclass: 1,
      scheduledDatetime: null,
      createdDatetime: now,
      recipients: {
        totalCount: recipients.length,
        totalSentCount: recipients.length,
        totalDeliveredCount: 0,
        totalDeliveryFailedCount: 0,
        items: recipients.map((one) => ({ recipient: Number(one), status: 'sent', statusDatetime: now })),
      },
    },
  };
}

function failure(status: number, code: number, description: string, parameter: string): Reply {
  return { status, body: { errors: [{ code, description, parameter }] } };
}
