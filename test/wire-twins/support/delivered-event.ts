import { randomUUID, type KeyObject } from 'node:crypto';
import type { StoredEvent } from '../../../services/core/domain/webhooks/stored-event.ts';
import { createEgressGuard } from '../../../services/core/platform/http/egress-guard.ts';
import { createHttpClient } from '../../../services/core/platform/http/http-client.ts';
import { deliverEvent, readyEndpoint } from '../../../services/worker/webhooks/deliver-event.ts';
import { createEndpointSecrets } from '../../../services/worker/webhooks/endpoint-secrets.ts';
import { eventBody } from '../../../services/worker/webhooks/event-body.ts';
import { startWebhookReceiver } from '../../support/webhook-receiver.ts';

/** The secrets and keys with which an endpoint's events are signed. */
export type SigningEndpoint = {
  readonly secret: string;
  /** The previous secret, while it is still valid. */
  readonly previousSecret?: string;
  readonly signingKey?: KeyObject;
};

/** A call as a receiver gets it. */
export type DeliveredCall = { readonly headers: Readonly<Record<string, string>>; readonly body: string };

const EVENT: StoredEvent = {
  seq: 7,
  id: randomUUID(),
  type: 'message.queued',
  at: new Date(),
  details: null,
  message: {
    sequence: 1,
    id: randomUUID(),
    test: false,
    externalId: 'Grüße ✓',
    channel: 'sms',
    to: '+15551230042',
    category: 'transactional',
    metadata: { orderId: 1042 },
    tags: ['order'],
    attempt: null,
    accountId: null,
    provider: null,
    isFinal: false,
  },
};

/**
 * Makes one call with the worker's own code, from an endpoint's stored row to the bytes on the wire, and returns what arrived.
 * @param ageSeconds by how much the worker's clock is behind.
 */
export async function deliveredEvent(
  { secret, previousSecret, signingKey }: SigningEndpoint,
  ageSeconds = 0,
): Promise<DeliveredCall> {
  await using receiver = await startWebhookReceiver();
  await using http = createHttpClient({
    guard: createEgressGuard({ allowCidrs: ['127.0.0.0/8'], ports: [443], resolveHost: async () => [] }),
  });
  // The keyring's ciphertexts are the plain bytes as base64.
  const encrypted = (bytes: string | Buffer): string => Buffer.from(bytes).toString('base64');
  const decrypter = {
    decrypt: async (_binding: unknown, ciphertext: string) => Buffer.from(ciphertext, 'base64'),
  };
  const endpoint = {
    id: randomUUID(),
    number: 1,
    tenantId: randomUUID(),
    url: `${receiver.origin}/events`,
    eventTypes: ['*'],
    finalOnly: false,
    channels: [],
    tags: [],
    headers: {},
    ordered: false,
    maskRecipients: false,
    signatures: signingKey === undefined ? (['v1'] as const) : (['v1', 'v1a'] as const),
    status: 'active',
    failures: 0,
    failingSince: null,
    version: 1,
    secret: encrypted(secret),
    previousSecret: previousSecret === undefined ? null : encrypted(previousSecret),
    signingKey:
      signingKey === undefined
        ? null
        : { id: randomUUID(), ciphertext: encrypted(signingKey.export({ format: 'der', type: 'pkcs8' })) },
    clientCertificate: null,
  } as const;
  const keys = await createEndpointSecrets({ decrypter, entriesMax: 10, ttlMs: 60_000 }).get(endpoint);
  if (keys === null) throw new Error('the endpoint has no keys');
  const now = () => Date.now() - ageSeconds * 1_000;
  const body = eventBody(EVENT, EVENT.seq, false);
  const sent = await deliverEvent(readyEndpoint(endpoint, keys), EVENT.id, body, {
    http,
    allowHttp: true,
    epochMs: now,
  });
  const [call] = receiver.calls;
  if (!sent.succeeded || call === undefined) throw new Error(`the call failed: ${sent.error}`);
  const headers = Object.entries(call.headers).map(([name, value]) => [name, String(value)]);
  return { headers: Object.fromEntries(headers), body: call.body };
}
