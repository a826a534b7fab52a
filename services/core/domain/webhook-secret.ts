import { createHmac, type KeyObject } from 'node:crypto';

const PREFIX = 'whsec_';

/** What of a secret must not be kept where a receiver says it back: itself, and the bytes that it writes, as they stand in it. */
export function hiddenInSecret(secret: string): string[] {
  return [secret, secret.slice(PREFIX.length)];
}

/**
 * The secret that signs what an endpoint is sent, as Standard Webhooks writes it: `whsec_` and 32 bytes in base64. It belongs
 * to the endpoint's row and a nonce, so that whoever has the nonce can show it again.
 */
export function deriveWebhookSecret(subkey: KeyObject, endpointId: string, nonce: Uint8Array): string {
  const digest = createHmac('sha256', subkey).update(`${endpointId}|`).update(nonce).digest();
  return `${PREFIX}${digest.toString('base64')}`;
}
