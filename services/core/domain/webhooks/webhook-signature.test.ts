import { createHmac, createPrivateKey, generateKeyPairSync, verify } from 'node:crypto';
import { array, assert, integer, property, uint8Array, uuid } from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createWebhookSigner } from './webhook-signature.ts';

const whsec = (bytes: Uint8Array): string => `whsec_${Buffer.from(bytes).toString('base64')}`;
const keyBytes = uint8Array({ minLength: 32, maxLength: 32 });
const seconds = integer({ min: 0, max: 4_000_000_000 });

describe('a signature', () => {
  test('matches the example of the specification', () => {
    const sign = createWebhookSigner({ secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'] });
    expect(sign('msg_p5jXN8AQM9LWM0D4loKWxJek', 1_614_265_330, Buffer.from('{"test": 2432232314}'))).toBe(
      'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
    );
  });

  test('with an Ed25519 key matches the test vector of Svix', () => {
    // `whsk_` and base64 of the private and the public key, as in Svix's documentation and tests.
    const pair = Buffer.from(
      '6Xb/dCcHpPea21PS1N9VY/NZW723CEc77N4rJCubMbfVKIDij2HKpMKkioLlX0dRqSKJp4AJ6p9lMicMFs6Kvg==',
      'base64',
    );
    const [d = '', x = ''] = [pair.subarray(0, 32), pair.subarray(32)].map((half) =>
      half.toString('base64url'),
    );
    const signingKey = createPrivateKey({ key: { kty: 'OKP', crv: 'Ed25519', d, x }, format: 'jwk' });
    const sign = createWebhookSigner({ secrets: [], signingKey });
    expect(sign('msg_p5jXN8AQM9LWM0D4loKWxJek', 1_614_265_330, Buffer.from('{"test": 2432232314}'))).toBe(
      'v1a,hnO3f9T8Ytu9HwrXslvumlUpqtNVqkhqw/enGzPCXe5BdqzCInXqYXFymVJaA7AZdpXwVLPo3mNl8EM+m7TBAg==',
    );
  });

  test('has one part per secret, the current one first, over the exact bytes', () => {
    assert(
      property(
        array(keyBytes, { minLength: 1, maxLength: 2 }),
        uuid(),
        seconds,
        uint8Array(),
        (keys, id, at, body) => {
          const signed = createWebhookSigner({ secrets: keys.map(whsec) })(id, at, body);
          const expected = keys.map((key) => {
            const bytes = Buffer.concat([Buffer.from(`${id}.${at}.`), body]);
            return `v1,${createHmac('sha256', key).update(bytes).digest('base64')}`;
          });
          expect(signed.split(' ')).toEqual(expected);
        },
      ),
    );
  });

  test('with an Ed25519 key is verified by its public key for the signed content only', () => {
    const { privateKey, publicKey } = generateKeyPairSync('ed25519');
    assert(
      property(keyBytes, uuid(), seconds, uint8Array({ minLength: 1 }), (key, id, at, body) => {
        const signed = createWebhookSigner({ secrets: [whsec(key)], signingKey: privateKey })(id, at, body);
        const [symmetric, own] = signed.split(' ');
        expect(symmetric).toMatch(/^v1,/);
        const signature = Buffer.from(own?.replace(/^v1a,/, '') ?? '', 'base64');
        const isGenuine = (text: Uint8Array) => verify(null, text, publicKey, signature);
        expect(isGenuine(Buffer.concat([Buffer.from(`${id}.${at}.`), body]))).toBe(true);
        expect(isGenuine(Buffer.concat([Buffer.from(`${id}.${at + 1}.`), body]))).toBe(false);
        body.set([(body[0] ?? 0) ^ 1]);
        expect(isGenuine(Buffer.concat([Buffer.from(`${id}.${at}.`), body]))).toBe(false);
      }),
    );
  });
});
