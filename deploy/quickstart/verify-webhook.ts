import { createHmac, createPublicKey, timingSafeEqual, verify } from 'node:crypto';

/** What an event receiver knows about an endpoint. */
export type WebhookKeys = {
  readonly endpointId: string;
  /** `whsec_` and base64. During a rotation there are two. */
  readonly secrets: readonly string[];
  /** Ed25519: 32 bytes, base64url. */
  readonly publicKeys: readonly string[];
};

export type SignedCall = {
  /** Lower-case names. */
  readonly headers: Readonly<Record<string, string>>;
  /** The exact bytes: any other serialization of the same JSON has another signature. */
  readonly body: Buffer;
  /** Milliseconds since the epoch. */
  readonly at: number;
};

/** Signature schemes: HMAC-SHA256 with the endpoint's secret, and Ed25519 with the tenant's key. */
export type Scheme = 'v1' | 'v1a';

export type WebhookVerdict =
  | { readonly verified: true; readonly endpointId: string; readonly schemes: readonly Scheme[] }
  | { readonly verified: false; readonly reason: string };

const AGE_MS_MAX = 5 * 60_000;
const SIGNATURES_MAX = 10;

/**
 * Verifies a call by the rules of https://www.standardwebhooks.com, as any receiver would, and without the sender's code:
 * one valid signature is enough, whoever made the others.
 * @param endpoints those whose URL was called.
 */
export function verifyWebhook(call: SignedCall, endpoints: readonly WebhookKeys[]): WebhookVerdict {
  const { headers, body, at } = call;
  const [id, timestamp, signatures] = ['id', 'timestamp', 'signature'].map(
    (name) => headers[`webhook-${name}`],
  );
  if (!id || !timestamp || !signatures) return refused('it is not signed');
  if (endpoints.length === 0) return refused('no endpoint has this URL');
  const content = Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]);
  const given = signatures.split(' ', SIGNATURES_MAX).map((one): readonly [string, Buffer] => {
    const comma = one.indexOf(',');
    return [one.slice(0, Math.max(comma, 0)), Buffer.from(one.slice(comma + 1), 'base64')];
  });
  for (const { endpointId, secrets, publicKeys } of endpoints) {
    const holds: Readonly<Record<Scheme, (signature: Buffer) => boolean>> = {
      v1: (signature) => secrets.some((secret) => isSame(signature, hmacOf(secret, content))),
      v1a: (signature) => publicKeys.some((key) => verify(null, content, publicKeyOf(key), signature)),
    };
    const schemes = (['v1', 'v1a'] as const).filter((scheme) =>
      given.some(([name, signature]) => name === scheme && holds[scheme](signature)),
    );
    if (schemes.length === 0) continue;
    const isTimely = /^\d{1,12}$/.test(timestamp) && Math.abs(at - Number(timestamp) * 1_000) <= AGE_MS_MAX;
    return isTimely ? { verified: true, endpointId, schemes } : refused('its timestamp is not of now');
  }
  return refused('its signature does not hold');
}

function refused(reason: string): WebhookVerdict {
  return { verified: false, reason };
}

function hmacOf(secret: string, content: Buffer): Buffer {
  const key = Buffer.from(secret.replace(/^whsec_/, ''), 'base64');
  return createHmac('sha256', key).update(content).digest();
}

function isSame(one: Buffer, other: Buffer): boolean {
  return one.length === other.length && timingSafeEqual(one, other);
}

function publicKeyOf(x: string) {
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
}
