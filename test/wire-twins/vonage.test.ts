import { createHash, generateKeyPairSync } from 'node:crypto';
import { expect, test } from 'vitest';
import type { ReceiptCall } from '../../services/providers/receipt.ts';
import { startVonageStandIn } from '../../services/providers/vonage/stand-in.ts';
import { signVonageCall, signVonageParameters } from '../../services/providers/vonage/stand-in-signature.ts';
import { RECEIPT_URL } from '../suites/receipt-conformance.ts';
import { FETCH_ACCEPT, ownTime } from './support/differences.ts';
import { callOf, oracles, verdictOf, type Oracle } from './support/oracles.ts';
import { ENVELOPE, INDIA, REFERENCE, twins, type Difference } from './support/twins.ts';
import { vendorPackage } from './support/vendor-package.ts';

type Messages = {
  Messages: new (auth: object) => { send(message: object): Promise<{ readonly messageUUID: string }> };
};
type Sms = {
  SMS: new (auth: object) => {
    send(message: object): Promise<{ readonly messages: readonly { readonly messageId: string }[] }>;
    verifySignature(signature: string, parameters: object, secret: string, algorithm: string): boolean;
  };
};
type Auth = {
  Auth: new (credential: object) => object;
  AlgorithmTypes: Readonly<Record<string, string>>;
};
type Jwt = { verifySignature(token: string, key: string): boolean };
type JsonWebToken = { sign(claims: object, key: string): string };
const { Messages } = await vendorPackage<Messages>('@vonage/messages');
const { SMS } = await vendorPackage<Sms>('@vonage/sms');
const { Auth, AlgorithmTypes } = await vendorPackage<Auth>('@vonage/auth');
const jwt = await vendorPackage<Jwt>('@vonage/jwt');
// The library with which @vonage/jwt signs and verifies.
const { sign } = await vendorPackage<JsonWebToken>('jsonwebtoken');

const { privateKey } = generateKeyPairSync('rsa', {
  modulusLength: 2_048,
  publicKeyEncoding: { type: 'spki', format: 'pem' },
  privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
});
const applicationId = 'aaaaaaaa-bbbb-4ccc-8ddd-0123456789ab';
const signatureSecret = 'signature-secret-1';
const keyed = { publicConfig: { apiKey: 'abcd1234', from: '+15005550006' } };
const account = { ...keyed, secretConfig: { apiSecret: 'api-secret-1', signatureSecret } };
const application = {
  publicConfig: { ...keyed.publicConfig, applicationId },
  secretConfig: { ...account.secretConfig, privateKey },
};
const asKey = new Auth({ apiKey: 'abcd1234', apiSecret: 'api-secret-1' });
const asApplication = new Auth({ applicationId, privateKey });

const callback = { clientRef: REFERENCE, webhookUrl: RECEIPT_URL, webhookVersion: 'v1' };
const ends = { from: '15005550006', to: '15551230001' };
const send = async (message: object) => (await new Messages(asApplication).send(message)).messageUUID;
const text = { body: 'Grüße & 你好' };
const common = { standIn: startVonageStandIn, account: application, headers: [] };
const any = expect.any(String) as unknown;
const TOKEN: readonly Difference[] = [
  FETCH_ACCEPT,
  ownTime('exp'),
  ownTime('iat'),
  { at: 'header.authorization.claims.jti', sdk: any, ours: any, why: 'An id that no other token has.' },
];

twins([
  {
    ...common,
    name: 'a text by the Messages API',
    provider: 'vonage',
    message: { ...ENVELOPE, channel: 'sms', to: '+15551230001', content: text },
    sendBySdk: () => {
      const sms = { encodingType: 'auto' };
      return send({
        channel: 'sms',
        messageType: 'text',
        ...ends,
        text: text.body,
        ttl: 3_600,
        sms,
        ...callback,
      });
    },
    differences: TOKEN,
  },
  {
    ...common,
    name: 'a text to India by the Messages API',
    provider: 'vonage',
    account: { ...application, publicConfig: { ...application.publicConfig, ...INDIA.settings } },
    message: { ...ENVELOPE, channel: 'sms', to: INDIA.to, content: { body: 'Hello' } },
    sendBySdk: () => {
      const { dltEntityId: entityId, dltTemplateId: contentId } = INDIA.settings;
      return send({
        channel: 'sms',
        messageType: 'text',
        ...ends,
        to: INDIA.digits,
        text: 'Hello',
        ttl: 3_600,
        sms: { encodingType: 'auto', entityId, contentId },
        ...callback,
      });
    },
    differences: TOKEN,
  },
  {
    ...common,
    name: 'a text to India by the SMS API',
    provider: 'vonage',
    account: { ...account, publicConfig: { ...account.publicConfig, api: 'sms', ...INDIA.settings } },
    message: { ...ENVELOPE, channel: 'sms', to: INDIA.to, content: { body: 'Hello' } },
    async sendBySdk() {
      const { messages } = await new SMS(asKey).send({
        ...ends,
        to: INDIA.digits,
        text: 'Hello',
        type: 'text',
        ttl: 3_600_000,
        clientRef: REFERENCE,
        callback: RECEIPT_URL,
        statusReportReq: true,
        entityId: INDIA.settings.dltEntityId,
        contentId: INDIA.settings.dltTemplateId,
      });
      return messages[0]?.messageId;
    },
    differences: [FETCH_ACCEPT],
  },
  {
    ...common,
    name: 'a text by the SMS API',
    provider: 'vonage',
    account: { ...account, publicConfig: { ...account.publicConfig, api: 'sms' } },
    message: { ...ENVELOPE, channel: 'sms', to: '+15551230001', content: text },
    async sendBySdk() {
      const { messages } = await new SMS(asKey).send({
        ...ends,
        text: text.body,
        type: 'unicode',
        ttl: 3_600_000,
        clientRef: REFERENCE,
        callback: RECEIPT_URL,
        statusReportReq: true,
      });
      return messages[0]?.messageId;
    },
    differences: [FETCH_ACCEPT],
  },
  {
    ...common,
    name: 'a text',
    provider: 'vonage-whatsapp',
    message: { ...ENVELOPE, channel: 'whatsapp', to: '+15551230001', content: { kind: 'text', ...text } },
    sendBySdk: () =>
      send({ channel: 'whatsapp', messageType: 'text', ...ends, text: text.body, ...callback }),
    differences: TOKEN,
  },
  {
    ...common,
    name: 'a document',
    provider: 'vonage-whatsapp',
    message: {
      ...ENVELOPE,
      channel: 'whatsapp',
      to: '+15551230001',
      content: {
        kind: 'media',
        type: 'document',
        url: 'https://files.example/a.pdf',
        caption: 'Look',
        filename: 'a.pdf',
      },
    },
    sendBySdk: () =>
      send({
        channel: 'whatsapp',
        messageType: 'file',
        ...ends,
        file: { url: 'https://files.example/a.pdf', caption: 'Look', name: 'a.pdf' },
        ...callback,
      }),
    differences: TOKEN,
  },
  {
    ...common,
    name: 'a template',
    provider: 'vonage-whatsapp',
    message: {
      ...ENVELOPE,
      channel: 'whatsapp',
      to: '+15551230001',
      content: { kind: 'template', name: 'otp', language: 'en_US', variables: ['123'] },
    },
    sendBySdk: () =>
      send({
        channel: 'whatsapp',
        messageType: 'custom',
        ...ends,
        custom: {
          type: 'template',
          template: {
            name: 'otp',
            language: { policy: 'deterministic', code: 'en_US' },
            components: [{ type: 'body', parameters: [{ type: 'text', text: '123' }] }],
          },
        },
        ...callback,
      }),
    differences: TOKEN,
  },
]);

const status = {
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({
    message_uuid: applicationId,
    status: 'delivered',
    client_ref: REFERENCE,
    note: 'Grüße',
  }),
};
const tokenOf = ({ headers }: ReceiptCall) => headers['authorization']?.replace('Bearer ', '') ?? '';
const hashOf = ({ body }: ReceiptCall) => createHash('sha256').update(body).digest('hex');
const claimsOf = (call: ReceiptCall, over: object = {}) => ({
  iss: 'Vonage',
  jti: 'j1',
  api_key: 'abcd1234',
  payload_hash: hashOf(call),
  ...over,
});
const withToken = (call: ReceiptCall, token: string) => ({
  ...call,
  headers: { ...call.headers, authorization: `Bearer ${token}` },
});
/** Replaces a claim and keeps the signature. */
function changedToken(call: ReceiptCall): ReceiptCall {
  const [head = '', , signature = ''] = tokenOf(call).split('.');
  const claims = Buffer.from(JSON.stringify(claimsOf(call, { jti: 'j2' }))).toString('base64url');
  return withToken(call, `${head}.${claims}.${signature}`);
}
const tokens = (provider: string): Oracle => ({
  name: 'a status of the Messages API',
  provider,
  account,
  call: status,
  signedByVendor: (call) => withToken(call, sign(claimsOf(call), signatureSecret)),
  signedByUs: (call) => signVonageCall(call, account, call.receivedAt),
  takenByVendor: (call) => jwt.verifySignature(tokenOf(call), signatureSecret),
  // The library verifies only the token, see below.
  changed: changedToken,
});

const receipt = new URLSearchParams({
  msisdn: '15551230001',
  messageId: '0A0000000123ABCD1',
  status: 'delivered',
  'err-code': '0',
  'client-ref': REFERENCE,
  note: 'a&b=c Grüße',
});
const parameters = (method: string, isJson = false): Oracle => {
  const signing = {
    ...account,
    publicConfig: { ...account.publicConfig, api: 'sms', signatureMethod: method },
  };
  return {
    name: `a receipt of the SMS API, ${method}${isJson ? ', as JSON' : ''}`,
    provider: 'vonage',
    account: signing,
    call: {
      headers: { 'content-type': isJson ? 'application/json' : 'application/x-www-form-urlencoded' },
      body: isJson ? JSON.stringify(Object.fromEntries(receipt)) : receipt.toString(),
    },
    signedByUs: (call) => signVonageParameters(call, signing, call.receivedAt),
    takenByVendor({ body }) {
      const text = Buffer.from(body).toString();
      const given = (isJson ? JSON.parse(text) : Object.fromEntries(new URLSearchParams(text))) as Record<
        string,
        string
      >;
      return new SMS(asKey).verifySignature(
        given['sig'] ?? '',
        given,
        signatureSecret,
        AlgorithmTypes[ALGORITHMS[method] ?? ''] ?? '',
      );
    },
    changed: (call) => ({
      ...call,
      body: Buffer.from(Buffer.from(call.body).toString().replace('ABCD1', 'ABCD2')),
    }),
  };
};
const ALGORITHMS: Readonly<Record<string, string>> = {
  md5hash: 'md5hash',
  md5: 'md5hmac',
  sha1: 'sha1hmac',
  sha256: 'sha256hmac',
  sha512: 'sha512hmac',
};

oracles([
  tokens('vonage'),
  tokens('vonage-whatsapp'),
  ...Object.keys(ALGORITHMS).flatMap((method) => [parameters(method), parameters(method, true)]),
]);

test('vonage: a body that does not match the token is forged to us, but not to the library', async () => {
  const oracle = tokens('vonage');
  const other = { ...callOf(oracle), body: Buffer.from(status.body.replace('delivered', 'rejected')) };
  const call = withToken(other, sign(claimsOf(callOf(oracle)), signatureSecret));
  expect(jwt.verifySignature(tokenOf(call), signatureSecret)).toBe(true);
  expect(await verdictOf(oracle, call)).toEqual({ kind: 'forged', reason: 'signature_mismatch' });
});
