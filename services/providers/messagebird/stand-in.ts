import { randomBytes } from 'node:crypto';
import { parseJson } from '../classify-error.ts';
import { createStandInMemory, type StandInMemory } from '../stand-in-memory.ts';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { messagebirdReporter } from './stand-in-reports.ts';

/** Starts MessageBird's messages and balance resources on loopback. */
export function startMessagebirdStandIn(options: StandInOptions = {}): Promise<StandIn> {
  const taken: Taken = createStandInMemory();
  return startStandIn((request) => answer(request, taken), options, reportsBy(messagebirdReporter));
}

/** Accepted messages by id. */
type Taken = StandInMemory<Readonly<Record<string, unknown>>>;

function answer(request: Received, taken: Taken): Reply | undefined {
  if (!request.headers['authorization']?.startsWith('AccessKey '))
    return failure(401, 2, 'Request not allowed (incorrect access_key)', 'access_key');
  if (request.method === 'GET' && request.path === '/balance')
    return { status: 200, body: { payment: 'prepaid', type: 'euros', amount: 10 } };
  const asked = /^\/messages\/([^/?]+)$/.exec(request.path)?.[1];
  if (request.method === 'GET' && asked !== undefined) return show(taken.find(asked));
  return request.method === 'POST' && request.path === '/messages' ? create(request, taken) : undefined;
}

/** Every accepted message counts as delivered by the time of the lookup. */
function show(message: Readonly<Record<string, unknown>> | undefined): Reply {
  if (message === undefined)
    return {
      status: 404,
      body: { errors: [{ code: 20, description: 'message not found', parameter: null }] },
    };
  const recipients = message['recipients'] as { readonly items: readonly object[] };
  const statusDatetime = new Date().toISOString().replace(/\.\d+Z$/, '+00:00');
  const delivered = {
    status: 'delivered',
    statusDatetime,
    statusReason: 'successfully delivered',
    statusErrorCode: null,
  };
  const items = recipients.items.map((one) => ({ ...one, ...delivered }));
  return { status: 200, body: { ...message, recipients: { ...recipients, totalDeliveredCount: 1, items } } };
}

function create(request: Received, taken: Taken): Reply {
  const sent = (parseJson(request.body) ?? {}) as Record<string, unknown>;
  for (const name of ['originator', 'recipients', 'body']) {
    if (!sent[name]) return failure(422, 9, `no (correct) ${name} found`, name);
  }
  const recipients = [sent['recipients']].flat().map(String);
  if (!recipients.every((one) => /^\d{5,15}$/.test(one)))
    return failure(422, 9, 'no (correct) recipients found', 'recipients');
  const now = new Date().toISOString().replace(/\.\d+Z$/, '+00:00');
  const id = randomBytes(16).toString('hex');
  const message = {
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
  };
  taken.keep(id, message);
  return { status: 201, body: message };
}

function failure(status: number, code: number, description: string, parameter: string): Reply {
  return { status, body: { errors: [{ code, description, parameter }] } };
}
