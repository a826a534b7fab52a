import { createHmac, randomUUID } from 'node:crypto';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';

/** A tenant's gateway on loopback. It takes a message once, however often it comes. */
export function startGatewayStandIn(secret: string, options: StandInOptions = {}): Promise<StandIn> {
  const taken = new Map<string, string>();
  return startStandIn((request) => answer(request, secret, taken), options);
}

function answer(request: Received, secret: string, taken: Map<string, string>): Reply | undefined {
  if (request.method !== 'POST') return undefined;
  const { 'webhook-id': id = '', 'webhook-timestamp': timestamp = '' } = request.headers;
  const signature = createHmac('sha256', Buffer.from(secret.replace('whsec_', ''), 'base64'))
    .update(`${id}.${timestamp}.${request.body}`)
    .digest('base64');
  if (request.headers['webhook-signature'] !== `v1,${signature}`) {
    return { status: 401, body: { error: { class: 'auth_or_config', code: 'bad_signature' } } };
  }
  const { type } = JSON.parse(request.body) as { type: string };
  if (type !== 'message.send') return { status: 204 };
  const providerMessageId = taken.get(id) ?? `gw-${randomUUID()}`;
  taken.set(id, providerMessageId);
  return { status: 202, body: { providerMessageId } };
}
