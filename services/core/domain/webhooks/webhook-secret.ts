import { createHmac, type KeyObject } from 'node:crypto';

const PREFIX = 'whsec_';

/** Returns the texts to redact if a receiver repeats a secret: the secret, and its base64 part. */
export function redactionsOfSecret(secret: string): string[] {
  return [secret, secret.slice(PREFIX.length)];
}

/**
 * Derives the signing secret of an endpoint in the form of Standard Webhooks: `whsec_` and 32 bytes in base64. It depends on the
 * endpoint's row and a nonce, so that it can be shown again from the nonce.
 */
export function deriveWebhookSecret(subkey: KeyObject, endpointId: string, nonce: Uint8Array): string {
  const digest = createHmac('sha256', subkey).update(`${endpointId}|`).update(nonce).digest();
  return `${PREFIX}${digest.toString('base64')}`;
}
