import { randomUUID } from 'node:crypto';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { jsonObject } from '../stand-in-json.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { infobipReporter } from './stand-in-reports.ts';

const ACCEPTED = {
  groupId: 1,
  groupName: 'PENDING',
  id: 26,
  name: 'PENDING_ACCEPTED',
  description: 'Message sent to next instance',
};
const DELIVERED = {
  groupId: 3,
  groupName: 'DELIVERED',
  id: 5,
  name: 'DELIVERED_TO_HANDSET',
  description: 'Message delivered to handset',
};
const DUPLICATE = {
  groupId: 5,
  groupName: 'REJECTED',
  id: 23,
  name: 'REJECTED_DUPLICATE_MESSAGE_ID',
  description: 'Rejected duplicate message ID',
};

type Taken = { readonly to: string; readonly status: object };
type Sms = {
  readonly destinations?: readonly { readonly to?: string; readonly messageId?: string }[];
  readonly content?: { readonly text?: string };
};
type Whatsapp = {
  readonly from?: string;
  readonly to?: string;
  readonly messageId?: string;
  readonly content?: unknown;
};

/** Starts Infobip's resources for SMS, WhatsApp and the balance on loopback. It remembers the ids that it received. */
export function startInfobipStandIn(options: StandInOptions = {}): Promise<StandIn> {
  const taken = new Map<string, Taken>();
  return startStandIn((request) => answer(request, taken), options, reportsBy(infobipReporter));
}

function answer(request: Received, taken: Map<string, Taken>): Reply | undefined {
  const isOld = request.path.startsWith('/whatsapp/');
  const [path = '', query] = request.path.split('?');
  if (!request.headers['authorization']?.startsWith('App '))
    return isOld
      ? exception(401, 'UNAUTHORIZED', 'Invalid login details')
      : fault(401, 'E401', 'Unauthorized.');
  if (request.method === 'GET' && path === '/account/1/balance')
    return { status: 200, body: { balance: 47.79134, currency: 'EUR' } };
  if (request.method === 'GET' && /^\/(?:sms\/3|whatsapp\/2)\/logs$/.test(path)) return logs(query, taken);
  if (request.method !== 'POST') return undefined;
  if (path === '/sms/3/messages') return sms(request, taken);
  const resource = /^\/whatsapp\/1\/message\/(text|image|video|audio|document|sticker|template)$/.exec(
    path,
  )?.[1];
  return resource === undefined ? undefined : whatsapp(request, resource, taken);
}

function sms({ body }: Received, taken: Map<string, Taken>): Reply {
  const sent = jsonObject(body) as { readonly messages?: readonly Sms[] } | undefined;
  if (sent === undefined) return fault(400, 'E400', 'Bad request.');
  const [message] = sent.messages ?? [];
  const [destination] = message?.destinations ?? [];
  if (!destination?.to) return fault(400, 'E400', 'Bad request.', 'messages[0].destinations[0].to');
  if (!message?.content?.text) return fault(400, 'E400', 'Bad request.', 'messages[0].content.text');
  const { messageId, status } = take(destination.to, destination.messageId, taken);
  const one = { messageId, status, destination: destination.to, details: { messageCount: 1 } };
  return { status: 200, body: { messages: [one] } };
}

function whatsapp({ body }: Received, resource: string, taken: Map<string, Taken>): Reply {
  const sent = jsonObject(body) as (Whatsapp & { readonly messages?: readonly Whatsapp[] }) | undefined;
  if (sent === undefined) return exception(400, 'BAD_REQUEST', 'Bad Request');
  const message = resource === 'template' ? sent.messages?.[0] : sent;
  const missing = (['from', 'to', 'content'] as const).find((field) => !message?.[field]);
  if (message?.to === undefined || missing !== undefined)
    return exception(400, 'BAD_REQUEST', 'Bad Request', missing);
  const one = { to: message.to, messageCount: 1, ...take(message.to, message.messageId, taken) };
  return { status: 200, body: resource === 'template' ? { messages: [one], bulkId: randomUUID() } : one };
}

function take(to: string, messageId: string = randomUUID(), taken: Map<string, Taken>) {
  if (taken.has(messageId)) return { messageId, status: DUPLICATE };
  taken.set(messageId, { to, status: ACCEPTED });
  return { messageId, status: ACCEPTED };
}

/** Every accepted message counts as delivered by the time of the lookup. */
function logs(query: string | undefined, taken: Map<string, Taken>): Reply {
  const messageId = new URLSearchParams(query).get('messageId') ?? '';
  const known = taken.get(messageId);
  const results =
    known === undefined
      ? []
      : [{ messageId, destination: known.to, status: known.status === ACCEPTED ? DELIVERED : known.status }];
  return { status: 200, body: { results } };
}

function fault(status: number, errorCode: string, description: string, property?: string): Reply {
  const violations = property === undefined ? [] : [{ property, violation: 'must not be blank' }];
  return {
    status,
    body: { errorCode, description, action: 'Check the request.', violations, resources: [] },
  };
}

function exception(status: number, messageId: string, text: string, field?: string): Reply {
  const faults = field === undefined ? {} : { validationErrors: { [field]: ['must not be blank'] } };
  return { status, body: { requestError: { serviceException: { messageId, text, ...faults } } } };
}
