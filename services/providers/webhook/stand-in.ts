import { createHmac, randomUUID } from 'node:crypto';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { jsonObject } from '../stand-in-json.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { gatewayReporter } from './stand-in-reports.ts';

/**
 * Starts a tenant's gateway on loopback. It accepts a message once, however often it arrives.
 * @param secret undefined: accepts calls signed with any secret.
 */
export function startGatewayStandIn(
  secret: string | undefined,
  options: StandInOptions = {},
): Promise<StandIn> {
  const taken = new Map<string, string>();
  return startStandIn((request) => answer(request, secret, taken), options, reportsBy(gatewayReporter));
}

function answer(
  request: Received,
  secret: string | undefined,
  taken: Map<string, string>,
): Reply | undefined {
  if (request.method !== 'POST') return undefined;
  const { 'webhook-id': id = '', 'webhook-timestamp': timestamp = '' } = request.headers;
  const given = request.headers['webhook-signature'];
  const expected = secret === undefined ? given : signatureOf(secret, `${id}.${timestamp}.${request.body}`);
  if (given === undefined || given !== expected) {
    return { status: 401, body: { error: { class: 'auth_or_config', code: 'bad_signature' } } };
  }
  const sent = jsonObject(request.body);
  if (sent === undefined)
    return { status: 400, body: { error: { class: 'content_rejected', code: 'invalid_body' } } };
  if (sent['type'] !== 'message.send') return { status: 204 };
  const providerMessageId = taken.get(id) ?? `gw-${randomUUID()}`;
  taken.set(id, providerMessageId);
  return { status: 202, body: { providerMessageId } };
}

function signatureOf(secret: string, text: string): string {
  const key = Buffer.from(secret.replace('whsec_', ''), 'base64');
  return `v1,${createHmac('sha256', key).update(text).digest('base64')}`;
}
