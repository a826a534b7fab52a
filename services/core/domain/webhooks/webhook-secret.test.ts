import { generateKeySync, randomBytes, randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { deriveWebhookSecret, redactionsOfSecret } from './webhook-secret.ts';

const newKey = () => generateKeySync('hmac', { length: 256 });

test('a secret is 32 bytes in base64, derived from its key, endpoint and nonce', () => {
  const [key, id, nonce] = [newKey(), randomUUID(), randomBytes(16)];
  const secret = deriveWebhookSecret(key, id, nonce);
  expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
  expect(Buffer.from(secret.slice('whsec_'.length), 'base64')).toHaveLength(32);
  expect(deriveWebhookSecret(key, id, nonce)).toBe(secret);
  expect(redactionsOfSecret(secret)).toEqual([secret, secret.slice('whsec_'.length)]);
  const others = [
    deriveWebhookSecret(newKey(), id, nonce),
    deriveWebhookSecret(key, randomUUID(), nonce),
    deriveWebhookSecret(key, id, randomBytes(16)),
  ];
  expect(new Set([secret, ...others]).size).toBe(4);
});
