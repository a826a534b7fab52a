import { createHmac, generateKeyPairSync, randomBytes, sign } from 'node:crypto';
import { expect, test } from 'vitest';
import { verifyWebhook, type WebhookKeys } from './verify-webhook.ts';

const AT = 1_700_000_000_000;
const secretOf = () => `whsec_${randomBytes(32).toString('base64')}`;
const { publicKey, privateKey } = generateKeyPairSync('ed25519');
const keys: WebhookKeys = {
  endpointId: 'one',
  secrets: [secretOf(), secretOf()],
  publicKeys: [String(publicKey.export({ format: 'jwk' }).x)],
};
const other: WebhookKeys = { endpointId: 'other', secrets: [secretOf()], publicKeys: [] };

type Parts = { id?: string; timestamp?: string; body?: string; secret?: string | undefined };

function hmac({ id = 'evt_1', timestamp = '1700000000', body = '{"a":"ü"}', secret }: Parts = {}): string {
  const key = Buffer.from((secret ?? keys.secrets[0] ?? '').slice(6), 'base64');
  return `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64')}`;
}

function ed25519(text = 'evt_1.1700000000.{"a":"ü"}'): string {
  return `v1a,${sign(null, Buffer.from(text), privateKey).toString('base64')}`;
}

function judge(signature: string, { timestamp = '1700000000', body = '{"a":"ü"}' } = {}, at = AT) {
  const headers = { 'webhook-id': 'evt_1', 'webhook-timestamp': timestamp, 'webhook-signature': signature };
  return verifyWebhook({ headers, body: Buffer.from(body), at }, [other, keys]);
}

test('the example of Standard Webhooks is verified', () => {
  const body = Buffer.from('{"test": 2432232314}');
  const headers = {
    'webhook-id': 'msg_p5jXN8AQM9LWM0D4loKWxJek',
    'webhook-timestamp': '1614265330',
    'webhook-signature': 'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=',
  };
  const endpoint = { endpointId: 'e', secrets: ['whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw'], publicKeys: [] };
  expect(verifyWebhook({ headers, body, at: 1_614_265_330_000 }, [endpoint])).toEqual({
    verified: true,
    endpointId: 'e',
    schemes: ['v1'],
  });
});

test.each([
  ['the present secret', hmac(), ['v1']],
  ['the former secret', hmac({ secret: keys.secrets[1] }), ['v1']],
  ['one of several', `v1,AAAA v2,x nonsense ${hmac()}`, ['v1']],
  ['the public key', ed25519(), ['v1a']],
  ['both', `${hmac()} ${ed25519()}`, ['v1', 'v1a']],
])('a signature by %s is valid', (_, signature, schemes) => {
  expect(judge(signature)).toEqual({ verified: true, endpointId: 'one', schemes });
});

test.each([
  ['a foreign secret', hmac({ secret: secretOf() })],
  ['another id', hmac({ id: 'evt_2' })],
  ['another time', hmac({ timestamp: '1700000001' })],
  ['another body', hmac({ body: '{"a":"u"}' })],
  ['a key for another body', ed25519('evt_1.1700000000.{}')],
  ['the right key under the wrong scheme', ed25519().replace('v1a', 'v1')],
  ['an empty value', 'v1,'],
])('a signature of %s is invalid', (_, signature) => {
  expect(judge(signature)).toEqual({ verified: false, reason: 'its signature does not hold' });
});

test('a call more than five minutes off, without a signature or without an endpoint is rejected', () => {
  expect(judge(hmac(), {}, AT + 300_000)).toMatchObject({ verified: true });
  for (const at of [AT + 300_001, AT - 300_001])
    expect(judge(hmac(), {}, at)).toEqual({ verified: false, reason: 'its timestamp is not of now' });
  expect(verifyWebhook({ headers: {}, body: Buffer.from('{}'), at: AT }, [keys])).toEqual({
    verified: false,
    reason: 'it is not signed',
  });
  const headers = { 'webhook-id': 'e', 'webhook-timestamp': '1', 'webhook-signature': 'v1,x' };
  expect(verifyWebhook({ headers, body: Buffer.from('{}'), at: AT }, [])).toEqual({
    verified: false,
    reason: 'no endpoint has this URL',
  });
});
