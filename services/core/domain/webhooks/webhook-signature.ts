import { createHmac, createSecretKey, sign, type KeyObject } from 'node:crypto';

/** The keys that sign the events of an endpoint. */
export type WebhookKeys = {
  /** The current secret and, while it is valid, the previous one: `whsec_` and base64, in the form of Standard Webhooks. */
  readonly secrets: readonly string[];
  /** An Ed25519 private key, for `v1a`; undefined if the endpoint does not use it. */
  readonly signingKey?: KeyObject | undefined;
};

/**
 * Returns the value of `webhook-signature` for one call.
 * @param id id of the event, the same for each retry.
 * @param timestamp time of this call, in whole seconds since the epoch.
 * @param body the bytes that are sent.
 */
export type WebhookSigner = (id: string, timestamp: number, body: Uint8Array) => string;

const SECRET_PREFIX = 'whsec_';

/** Creates a signer as specified by Standard Webhooks 1.0: it signs with each key, so that a receiver may know any of them. */
export function createWebhookSigner({ secrets, signingKey }: WebhookKeys): WebhookSigner {
  // Created once: creating the key for each call would cost five times the HMAC itself.
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
