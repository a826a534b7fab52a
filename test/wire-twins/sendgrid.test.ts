import { generateKeyPairSync } from 'node:crypto';
import { expect, test } from 'vitest';
import { startSendgridStandIn } from '../../services/providers/sendgrid/stand-in.ts';
import { signSendgridCall } from '../../services/providers/sendgrid/stand-in-signature.ts';
import { callOf, oracles, verdictOf, type Oracle } from './support/oracles.ts';
import { MAIL } from './support/messages.ts';
import { ENVELOPE, REFERENCE, twins } from './support/twins.ts';
import { vendorPackage } from './support/vendor-package.ts';

type Mail = {
  setApiKey(key: string): void;
  readonly client: { setDataResidency(region: string): void };
  send(mail: object): Promise<[{ readonly headers: Readonly<Record<string, string>> }, unknown]>;
};
type Webhook = {
  EventWebhook: new () => {
    convertPublicKeyToECDSA(key: string): unknown;
    verifySignature(key: unknown, payload: Buffer, signature: string, timestamp: string): boolean;
  };
};
type Ecdsa = {
  Ecdsa: { sign(text: string, key: unknown): { toBase64(): string } };
  PrivateKey: { fromPem(pem: string): unknown };
};
const mail = await vendorPackage<Mail>('@sendgrid/mail');
const { EventWebhook } = await vendorPackage<Webhook>('@sendgrid/eventwebhook');
// The library with which the SDK verifies.
const { Ecdsa, PrivateKey } = await vendorPackage<Ecdsa>('starkbank-ecdsa');

const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const webhookPublicKey = publicKey.export({ type: 'spki', format: 'der' }).toString('base64');
const account = {
  publicConfig: { from: 'news@acme.example', fromName: 'Acme', webhookPublicKey },
  secretConfig: { apiKey: 'SG.key-1.key-2' },
};
mail.setApiKey('SG.key-1.key-2');

const { to, content } = MAIL;
const asSdk = {
  personalizations: [{ to, customArgs: { despatch_message_id: REFERENCE } }],
  from: { email: content.from.address, name: content.from.name },
  replyTo: { email: content.replyTo.address, name: content.replyTo.name },
  subject: content.subject,
  text: content.text,
  html: content.html,
  headers: content.headers,
  attachments: content.attachments.map(({ filename, contentType, content }) => ({
    filename,
    type: contentType,
    content,
    disposition: 'attachment',
  })),
};
async function send(): Promise<string | undefined> {
  const [{ headers }] = await mail.send(asSdk);
  return headers['x-message-id'];
}

twins([
  {
    name: 'a mail with everything',
    provider: 'sendgrid',
    account,
    message: { ...ENVELOPE, ...MAIL },
    standIn: startSendgridStandIn,
    sendBySdk: send,
    differences: [],
  },
  {
    name: 'the same in the European Union',
    provider: 'sendgrid',
    account: { ...account, publicConfig: { ...account.publicConfig, region: 'eu' } },
    message: { ...ENVELOPE, ...MAIL },
    standIn: startSendgridStandIn,
    sendBySdk: () => {
      mail.client.setDataResidency('eu');
      return send();
    },
    differences: [],
  },
]);

const events = [
  { event: 'delivered', email: to, sg_event_id: 'ZXZlbnQ', timestamp: 1_795_348_800, reason: 'Grüße' },
];

const oracle: Oracle = {
  name: 'events',
  provider: 'sendgrid',
  account,
  call: { headers: { 'content-type': 'application/json' }, body: `${JSON.stringify(events)}\r\n` },
  signedByVendor: (call) => {
    const timestamp = String(Math.floor(call.receivedAt / 1_000));
    const key = PrivateKey.fromPem(privateKey.export({ type: 'sec1', format: 'pem' }) as string);
    return {
      ...call,
      headers: {
        ...call.headers,
        'x-twilio-email-event-webhook-signature': Ecdsa.sign(timestamp + String(call.body), key).toBase64(),
        'x-twilio-email-event-webhook-timestamp': timestamp,
      },
    };
  },
  signedByUs: (call) => signSendgridCall(call, privateKey, call.receivedAt),
  takenByVendor: ({ headers, body }) => {
    const webhook = new EventWebhook();
    return webhook.verifySignature(
      webhook.convertPublicKeyToECDSA(webhookPublicKey),
      Buffer.from(body),
      headers['x-twilio-email-event-webhook-signature'] ?? '',
      headers['x-twilio-email-event-webhook-timestamp'] ?? '',
    );
  },
};

oracles([oracle]);

test('sendgrid: events are genuine byte for byte, and forged once their JSON is serialized again', async () => {
  const call = signSendgridCall(callOf(oracle), privateKey, Date.now());
  const anew = { ...call, body: Buffer.from(JSON.stringify(JSON.parse(String(call.body)))) };
  expect(await verdictOf(oracle, call)).toEqual({ kind: 'genuine' });
  expect(await verdictOf(oracle, anew)).toEqual({ kind: 'forged', reason: 'signature_mismatch' });
  expect([oracle.takenByVendor?.(call), oracle.takenByVendor?.(anew)]).toEqual([true, false]);
});
