import { createHmac, createSecretKey, sign, type KeyObject } from 'node:crypto';

/** What signs the events of an endpoint. */
export type WebhookKeys = {
  /** The present secret and, while it holds, the former one: `whsec_` and base64, as Standard Webhooks writes them. */
  readonly secrets: readonly string[];
  /** An Ed25519 private key, for `v1a`; undefined where the endpoint has not chosen it. */
  readonly signingKey?: KeyObject | undefined;
};

/**
 * The value of `webhook-signature` for one call.
 * @param id of the event, the same on each try. @param timestamp of this try, in whole seconds since the epoch.
 * @param body the bytes that are sent.
 */
export type WebhookSigner = (id: string, timestamp: number, body: Uint8Array) => string;

const SECRET_PREFIX = 'whsec_';

/** Signs as Standard Webhooks 1.0 says: by each of the keys, so that a receiver may know any of them. */
export function createWebhookSigner({ secrets, signingKey }: WebhookKeys): WebhookSigner {
  // Prepared: to do so for each call would cost five times what the HMAC does.
  const keys = secrets.map((secret) => createSecretKey(secretBytes(secret)));
  return (id, timestamp, body) => {
    const head = `${id}.${timestamp}.`;
    const signatures = keys.map(
      (key) => `v1,${createHmac('sha256', key).update(head).update(body).digest('base64')}`,
    );
    if (signingKey !== undefined) {
      const signed = sign(null, Buffer.concat([Buffer.from(head), body]), signingKey);
      signatures.push(`v1a,${signed.toString('base64')}`);
    }
    return signatures.join(' ');
  };
}

function secretBytes(secret: string): Buffer {
  const base64 = secret.startsWith(SECRET_PREFIX) ? secret.slice(SECRET_PREFIX.length) : secret;
  return Buffer.from(base64, 'base64');
}
