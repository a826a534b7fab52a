import { createHash, createSecretKey, generateKeyPairSync } from 'node:crypto';
import { SNS_CERTIFICATE } from '../../../services/providers/aws/stand-in-certificate.ts';
import { awsReporter } from '../../../services/providers/aws/stand-in-reports.ts';
import { plivoReporter } from '../../../services/providers/plivo/stand-in-reports.ts';
import type { ReceiptCall } from '../../../services/providers/receipt.ts';
import { startStandIn, type SigningAccount } from '../../../services/providers/stand-in.ts';
import { signTelnyxCall } from '../../../services/providers/telnyx/stand-in-signature.ts';
import { leadVendorCalls } from './vendor-calls.ts';
import { vendorPackage } from './vendor-package.ts';

/** Signs or verifies a call to a receipt URL with the vendor's own code. */
export type VendorSigner = {
  /** Signs with the vendor's code, where that code can sign. */
  readonly sign: (call: ReceiptCall, account: SigningAccount) => ReceiptCall | Promise<ReceiptCall>;
  /** Verifies with the vendor's code; false or an error: refused. Absent where the vendor's code signed the call. */
  readonly isTaken?: (call: ReceiptCall, account: SigningAccount) => unknown;
  /** Changes a byte that the signature covers. Default: the last digit of the body. */
  readonly changed?: (call: ReceiptCall) => ReceiptCall;
  /** Account settings beyond the usual ones. */
  readonly settings?: Readonly<Record<string, unknown>>;
};

type Form = Readonly<Record<string, string>>;
type Twilio = { getExpectedTwilioSignature(token: string, url: string, form: Form): string };
type Plivo = {
  validateV3Signature(
    method: string,
    url: string,
    nonce: string,
    token: string,
    signature: string,
    form: Form,
  ): boolean;
};
type Telnyx = { TelnyxWebhook: new (key: string) => { verify(body: string, headers: Form): Promise<void> } };
type Sinch = {
  computeSignedData(body: string, nonce: string, timestamp: string): string;
  calculateWebhookSignature(signed: string, secret: string): string;
};
type Ecdsa = {
  Ecdsa: { sign(text: string, key: unknown): { toBase64(): string } };
  PrivateKey: { fromPem(pem: string): unknown };
};
type Webhook = { Webhook: new (secret: string) => { sign(id: string, at: Date, body: string): string } };
type Octokit = { sign(secret: string, body: string): Promise<string> };
type JsonWebToken = { sign(claims: object, key: string): string };
type Vonage = { verifySignature(token: string, key: string): boolean };
type Messagebird = { verify(url: string, body: null, token: string, key: object): Promise<boolean> };
type SnsValidator = new () => { validate(message: object): Promise<unknown> };

const twilio = await vendorPackage<Twilio>('twilio');
const plivo = await vendorPackage<Plivo>('plivo');
const { TelnyxWebhook } = await vendorPackage<Telnyx>('telnyx/lib/webhooks');
const sinch = await vendorPackage<Sinch>('@sinch/sdk-core');
const { Ecdsa, PrivateKey } = await vendorPackage<Ecdsa>('starkbank-ecdsa');
const svix = await vendorPackage<Webhook>('svix');
const standard = await vendorPackage<Webhook>('standardwebhooks');
// GitHub signs as Meta does, with the same form of the header, the same key and the same bytes.
const octokit = await vendorPackage<Octokit>('./node_modules/@octokit/webhooks-methods/dist-node/index.js');
const jsonwebtoken = await vendorPackage<JsonWebToken>('jsonwebtoken');
const vonageJwt = await vendorPackage<Vonage>('@vonage/jwt');
const messagebird = await vendorPackage<Messagebird>('messagebird/lib/webhook-signature-jwt');
const PayloadValidator = await vendorPackage<SnsValidator>('sns-payload-validator');

const telnyxKey = generateKeyPairSync('ed25519');
const telnyxPublicKey = telnyxKey.publicKey
  .export({ type: 'spki', format: 'der' })
  .subarray(-32)
  .toString('base64');
const sendgridKey = generateKeyPairSync('ec', { namedCurve: 'P-256' });

const textOf = ({ body }: ReceiptCall): string => Buffer.from(body).toString();
const formOf = (call: ReceiptCall): Form => Object.fromEntries(new URLSearchParams(textOf(call)));
const hash = (of: string | Uint8Array): string => createHash('sha256').update(of).digest('hex');
const second = ({ receivedAt }: ReceiptCall): string => String(Math.floor(receivedAt / 1_000));
const secretOf = ({ secretConfig }: SigningAccount, name: string): string => String(secretConfig[name]);
const withHeaders = (call: ReceiptCall, headers: Form): ReceiptCall => ({
  ...call,
  headers: { ...call.headers, ...headers },
});

const twilioSigner: VendorSigner = {
  sign: (call, account) =>
    withHeaders(call, {
      'x-twilio-signature': twilio.getExpectedTwilioSignature(
        secretOf(account, 'authToken'),
        call.url,
        formOf(call),
      ),
    }),
};

const vonageSigner: VendorSigner = {
  sign(call, account) {
    const claims = {
      iss: 'Vonage',
      jti: hash(call.body),
      api_key: 'abcd1234',
      payload_hash: hash(call.body),
    };
    const token = jsonwebtoken.sign(claims, secretOf(account, 'signatureSecret'));
    return withHeaders(call, { authorization: `Bearer ${token}` });
  },
  isTaken: ({ headers }, account) =>
    vonageJwt.verifySignature(
      headers['authorization']?.replace('Bearer ', '') ?? '',
      secretOf(account, 'signatureSecret'),
    ),
};

const gatewaySigner: VendorSigner = {
  sign: (call, account) => {
    const webhook = new standard.Webhook(secretOf(account, 'signingSecret'));
    return withHeaders(call, {
      'webhook-id': 'evt_1',
      'webhook-timestamp': second(call),
      'webhook-signature': webhook.sign('evt_1', new Date(call.receivedAt), textOf(call)),
    });
  },
};

/** No AWS code can sign as SNS does; AWS' library for receivers verifies what the stand-in signed. */
const snsSigner: VendorSigner = {
  sign(call, account) {
    const signed = awsReporter.sign?.(call, account, call.receivedAt);
    if (signed === undefined) throw new Error('The account has no topic');
    return signed;
  },
  async isTaken(call) {
    await using vendor = await startStandIn(() => ({ status: 200, body: SNS_CERTIFICATE }));
    using _ = leadVendorCalls(vendor.origin);
    await new PayloadValidator().validate(JSON.parse(textOf(call)) as object);
    return true;
  },
  // The rest of the envelope is not signed.
  changed: (call) => ({
    ...call,
    body: Buffer.from(
      textOf(call).replace(/(?<="MessageId":"[^"]*)[0-9a-f](?=")/, (last) => (last === '0' ? '1' : '0')),
    ),
  }),
};

/** The signers by catalog id, of each vendor that signs its reports. */
export const VENDOR_SIGNERS: Readonly<Record<string, VendorSigner>> = {
  'aws-sms': snsSigner,
  ses: snsSigner,
  twilio: twilioSigner,
  'twilio-whatsapp': twilioSigner,
  vonage: vonageSigner,
  'vonage-whatsapp': vonageSigner,
  messagebird: {
    sign(call, account) {
      const at = Math.floor(call.receivedAt / 1_000);
      const claims = { iss: 'MessageBird', nbf: at, exp: at + 60, jti: 'j1', url_hash: hash(call.url) };
      const token = jsonwebtoken.sign(claims, secretOf(account, 'signingKey'));
      return withHeaders(call, { 'messagebird-signature-jwt': token });
    },
    isTaken: ({ url, headers }, account) =>
      messagebird.verify(
        url,
        null,
        headers['messagebird-signature-jwt'] ?? '',
        createSecretKey(Buffer.from(secretOf(account, 'signingKey'))),
      ),
  },
  plivo: {
    sign: (call, account) => plivoReporter.sign?.(call, account, call.receivedAt) ?? call,
    isTaken: (call, account) =>
      plivo.validateV3Signature(
        call.method,
        call.url,
        call.headers['x-plivo-signature-v3-nonce'] ?? '',
        secretOf(account, 'authToken'),
        call.headers['x-plivo-signature-v3'] ?? '',
        formOf(call),
      ),
  },
  telnyx: {
    settings: { publicKey: telnyxPublicKey },
    sign: (call) => signTelnyxCall(call, telnyxKey.privateKey, call.receivedAt),
    isTaken: async (call) => {
      await new TelnyxWebhook(telnyxPublicKey).verify(textOf(call), call.headers);
      return true;
    },
  },
  sinch: {
    sign(call, account) {
      const signed = sinch.computeSignedData(textOf(call), 'nonce-1', second(call));
      return withHeaders(call, {
        'x-sinch-webhook-signature': sinch.calculateWebhookSignature(
          signed,
          secretOf(account, 'webhookSecret'),
        ),
        'x-sinch-webhook-signature-nonce': 'nonce-1',
        'x-sinch-webhook-signature-timestamp': second(call),
      });
    },
  },
  sendgrid: {
    settings: {
      webhookPublicKey: sendgridKey.publicKey.export({ type: 'spki', format: 'der' }).toString('base64'),
    },
    sign(call) {
      const pem = sendgridKey.privateKey.export({ type: 'sec1', format: 'pem' }) as string;
      const signature = Ecdsa.sign(second(call) + textOf(call), PrivateKey.fromPem(pem)).toBase64();
      return withHeaders(call, {
        'x-twilio-email-event-webhook-signature': signature,
        'x-twilio-email-event-webhook-timestamp': second(call),
      });
    },
  },
  resend: {
    sign(call, account) {
      const webhook = new svix.Webhook(secretOf(account, 'webhookSecret'));
      return withHeaders(call, {
        'svix-id': 'msg_1',
        'svix-timestamp': second(call),
        'svix-signature': webhook.sign('msg_1', new Date(call.receivedAt), textOf(call)),
      });
    },
  },
  'whatsapp-cloud': {
    sign: async (call, account) =>
      withHeaders(call, {
        'x-hub-signature-256': await octokit.sign(secretOf(account, 'appSecret'), textOf(call)),
      }),
  },
  'webhook-sms': gatewaySigner,
  'webhook-email': gatewaySigner,
  'webhook-push': gatewaySigner,
  'webhook-whatsapp': gatewaySigner,
};
