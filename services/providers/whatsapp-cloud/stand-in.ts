import { randomBytes } from 'node:crypto';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { jsonObject } from '../stand-in-json.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { whatsappCloudReporter } from './stand-in-reports.ts';

/** Starts the Graph API's phone number node and its messages edge on loopback. */
export function startWhatsappCloudStandIn(options: StandInOptions = {}): Promise<StandIn> {
  return startStandIn(answer, options, reportsBy(whatsappCloudReporter));
}

function answer(request: Received): Reply | undefined {
  const [, phoneNumberId, edge] = /^\/v\d+\.\d+\/(\d+)(\/messages)?(?:\?|$)/.exec(request.path) ?? [];
  if (phoneNumberId === undefined) return undefined;
  if (!request.headers['authorization']?.startsWith('Bearer ')) {
    return failure(401, 190, 'Invalid OAuth access token.');
  }
  if (request.method === 'GET' && edge === undefined) return { status: 200, body: { id: phoneNumberId } };
  if (request.method !== 'POST' || edge === undefined) return undefined;
  const message = jsonObject(request.body);
  if (message === undefined) return failure(400, 100, 'Invalid parameter');
  const { messaging_product: product, to, type = 'text' } = message as Readonly<Record<string, string>>;
  if (product !== 'whatsapp') return failure(400, 100, 'The parameter messaging_product is required.');
  if (to === undefined || !(type in message)) return failure(400, 131008, 'Required parameter is missing');
  return {
    status: 200,
    body: {
      messaging_product: 'whatsapp',
      contacts: [{ input: to, wa_id: to.replace('+', '') }],
      messages: [{ id: `wamid.${randomBytes(24).toString('base64')}`, message_status: 'accepted' }],
    },
  };
}

function failure(status: number, code: number, message: string): Reply {
  return {
    status,
    body: { error: { message: `(#${code}) ${message}`, type: 'OAuthException', code, fbtrace_id: 'AbCdEf' } },
  };
}
