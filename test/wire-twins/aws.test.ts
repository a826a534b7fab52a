import { createHash, createHmac } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createHttpClient, type HttpClient } from '../../services/core/platform/http/http-client.ts';
import { SNS_CERTIFICATE } from '../../services/providers/aws/stand-in-certificate.ts';
import { signedEnvelope, snsContext, TOPIC_ARN } from '../../services/providers/aws/stand-in-envelope.ts';
import { startAwsStandIn } from '../../services/providers/aws/stand-in.ts';
import type { ReceiptCall } from '../../services/providers/receipt.ts';
import { startStandIn } from '../../services/providers/stand-in.ts';
import { MAIL } from './support/messages.ts';
import { callOf, oracles, verdictOf, type Oracle } from './support/oracles.ts';
import {
  ENVELOPE,
  NOW,
  INDIA,
  REFERENCE,
  sendByUs,
  twins,
  type Difference,
  type Twin,
} from './support/twins.ts';
import { leadVendorCalls } from './support/vendor-calls.ts';
import { vendorPackage } from './support/vendor-package.ts';

type Command = new (input: object) => object;
type Client = new (options: object) => { send(command: object): Promise<{ readonly MessageId?: string }> };
type Sms = { PinpointSMSVoiceV2Client: Client; SendTextMessageCommand: Command };
type Sns = { SNSClient: Client; PublishCommand: Command };
type Ses = { SESv2Client: Client; SendEmailCommand: Command };
type Signed = { readonly headers: Readonly<Record<string, string>> };
type Signer = {
  SignatureV4: new (options: object) => { sign(request: object, options: object): Promise<Signed> };
};
type Validator = new () => {
  validate(message: object, callback: (error: Error | null) => void): void;
};
type PayloadValidator = new () => { validate(message: object): Promise<unknown> };
const { PinpointSMSVoiceV2Client, SendTextMessageCommand } = await vendorPackage<Sms>(
  '@aws-sdk/client-pinpoint-sms-voice-v2',
);
const { SNSClient, PublishCommand } = await vendorPackage<Sns>('@aws-sdk/client-sns');
const { SESv2Client, SendEmailCommand } = await vendorPackage<Ses>('@aws-sdk/client-sesv2');
const { FetchHttpHandler } = await vendorPackage<{ FetchHttpHandler: new () => object }>(
  '@smithy/fetch-http-handler',
);
const { SignatureV4 } = await vendorPackage<Signer>('@smithy/signature-v4');
const MessageValidator = await vendorPackage<Validator>('sns-validator');
const SnsPayloadValidator = await vendorPackage<PayloadValidator>('sns-payload-validator');

const credentials = {
  accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
  secretAccessKey: 'wJalrXUtnFEMI/K7MDENG',
  sessionToken: 'st-1',
};
const { accessKeyId, secretAccessKey, sessionToken } = credentials;
const settings = { region: 'eu-central-1', accessKeyId };
const secretConfig = { secretAccessKey, sessionToken };
// The fetch handler can be redirected to the test; it sends the same requests.
const options = () => ({
  region: 'eu-central-1',
  credentials,
  requestHandler: new FetchHttpHandler(),
  maxAttempts: 1,
});

const any = expect.any(String) as unknown;
const DIFFERENCES: readonly Difference[] = [
  { at: 'header.accept', sdk: '*/*', why: 'Added by fetch, which the SDK is made to go by here.' },
  { at: 'header.authorization.day', sdk: any, ours: '20260115', why: 'Each goes by its own clock.' },
  {
    at: 'header.authorization.headers',
    sdk: any,
    ours: any,
    why: 'The SDK signs what it says of itself too.',
  },
  { at: 'header.authorization.signature', sdk: any, ours: any, why: 'Of another time; compared below.' },
  { at: 'header.x-amz-date', sdk: any, ours: '20260115T120000Z', why: 'Each goes by its own clock.' },
];
const common = { standIn: startAwsStandIn, headers: ['x-amz-date', 'x-amz-target', 'x-amz-security-token'] };
const sms = {
  ...ENVELOPE,
  channel: 'sms',
  to: '+15551230001',
  content: { body: 'Grüße & 50% + 你好' },
} as const;
const { to, content } = MAIL;

const CASES: readonly Twin[] = [
  {
    ...common,
    name: 'a text by End User Messaging',
    provider: 'aws-sms',
    account: {
      publicConfig: { ...settings, originationIdentity: '+15005550006', configurationSetName: 'set' },
      secretConfig,
    },
    message: sms,
    async sendBySdk() {
      const input = {
        DestinationPhoneNumber: '+15551230001',
        OriginationIdentity: '+15005550006',
        MessageBody: sms.content.body,
        MessageType: 'TRANSACTIONAL',
        ConfigurationSetName: 'set',
        TimeToLive: 3_600,
        Context: { despatchMessageId: REFERENCE },
      };
      return (await new PinpointSMSVoiceV2Client(options()).send(new SendTextMessageCommand(input)))
        .MessageId;
    },
    differences: DIFFERENCES,
  },
  {
    ...common,
    name: 'a text to India by End User Messaging',
    provider: 'aws-sms',
    account: { publicConfig: { ...settings, senderId: 'ACMEIN', ...INDIA.settings }, secretConfig },
    message: { ...sms, to: INDIA.to },
    async sendBySdk() {
      const { dltEntityId, dltTemplateId } = INDIA.settings;
      const input = {
        DestinationPhoneNumber: INDIA.to,
        OriginationIdentity: 'ACMEIN',
        MessageBody: sms.content.body,
        MessageType: 'TRANSACTIONAL',
        TimeToLive: 3_600,
        DestinationCountryParameters: { IN_ENTITY_ID: dltEntityId, IN_TEMPLATE_ID: dltTemplateId },
        Context: { despatchMessageId: REFERENCE },
      };
      return (await new PinpointSMSVoiceV2Client(options()).send(new SendTextMessageCommand(input)))
        .MessageId;
    },
    differences: DIFFERENCES,
  },
  {
    ...common,
    name: 'a text by SNS',
    provider: 'aws-sms',
    account: { publicConfig: { ...settings, mode: 'sns', senderId: 'Acme' }, secretConfig },
    message: sms,
    async sendBySdk() {
      const text = (StringValue: string) => ({ DataType: 'String', StringValue });
      const input = {
        PhoneNumber: '+15551230001',
        Message: sms.content.body,
        MessageAttributes: {
          'AWS.SNS.SMS.SMSType': text('Transactional'),
          'AWS.SNS.SMS.SenderID': text('Acme'),
        },
      };
      return (await new SNSClient(options()).send(new PublishCommand(input))).MessageId;
    },
    differences: [
      ...DIFFERENCES,
      {
        at: 'header.content-type',
        sdk: 'application/x-www-form-urlencoded',
        ours: 'application/x-www-form-urlencoded;charset=utf-8',
        why: 'Ours names the encoding, which is the only one.',
      },
    ],
  },
  {
    ...common,
    name: 'a mail with everything',
    provider: 'ses',
    account: { publicConfig: { ...settings, configurationSetName: 'set' }, secretConfig },
    message: { ...ENVELOPE, ...MAIL },
    async sendBySdk() {
      const part = (Data: string) => ({ Data, Charset: 'UTF-8' });
      const input = {
        FromEmailAddress: '"Acme News" <news@acme.example>',
        Destination: { ToAddresses: [to] },
        ReplyToAddresses: ['"Acme Help" <help@acme.example>'],
        Content: {
          Simple: {
            Subject: part(content.subject),
            Body: { Text: part(content.text), Html: part(content.html) },
            Headers: [{ Name: 'X-Campaign', Value: 'spring' }],
            Attachments: [
              {
                FileName: content.attachments[0].filename,
                ContentType: 'text/plain',
                ContentDisposition: 'ATTACHMENT',
                ContentTransferEncoding: 'BASE64',
                RawContent: Buffer.from('Hi'),
              },
            ],
          },
        },
        EmailTags: [{ Name: 'despatch_message_id', Value: REFERENCE }],
        ConfigurationSetName: 'set',
      };
      return (await new SESv2Client(options()).send(new SendEmailCommand(input))).MessageId;
    },
    differences: DIFFERENCES,
  },
];

twins(CASES);

let http: HttpClient;
beforeAll(() => {
  http = createHttpClient();
});
afterAll(() => http[Symbol.asyncDispose]());

/** Adapts Node's hashes to the interface of the signer. */
class Sha256 {
  private readonly hash;
  constructor(secret?: string | Uint8Array) {
    this.hash = secret === undefined ? createHash('sha256') : createHmac('sha256', secret);
  }
  update(data: string | Uint8Array): void {
    this.hash.update(data);
  }
  async digest(): Promise<Uint8Array> {
    return this.hash.digest();
  }
}

test.each(CASES)("$provider: $name has the same signature as with AWS's signer", async (twin) => {
  await using standIn = await twin.standIn();
  const { request, origin } = await sendByUs(twin, standIn, http);
  const { hostname } = new URL(origin ?? '');
  const authorization = request.headers['authorization'] ?? '';
  const [, service] = /\/([\w-]+)\/aws4_request,/.exec(authorization) ?? [];
  const [, names = ''] = /SignedHeaders=([\w;-]+)/.exec(authorization) ?? [];
  const headers = Object.fromEntries(names.split(';').map((name) => [name, request.headers[name]]));
  const signer = new SignatureV4({
    credentials,
    region: 'eu-central-1',
    service,
    sha256: Sha256,
    applyChecksum: false,
  });
  const asked = {
    method: request.method,
    protocol: 'https:',
    hostname,
    path: request.path,
    query: {},
    body: request.body,
  };
  const sign = async (over: object) => {
    const signed = await signer.sign(
      { ...asked, headers: { ...headers, host: hostname }, ...over },
      { signingDate: new Date(NOW) },
    );
    return signed.headers['authorization'];
  };
  expect(await sign({})).toBe(authorization);
  expect(await sign({ body: `${request.body} ` })).not.toBe(authorization);
});

// The second library requires this form of a certificate's name.
const SigningCertURL = `https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-${'0123456789abcdef'.repeat(2)}.pem`;
const CONFIRMATION = {
  Token: 't0ken',
  SubscribeURL: 'https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription',
};
type Judge = (envelope: object) => Promise<unknown>;
const bySnsValidator: Judge = (envelope) =>
  new Promise((resolve, reject) => {
    new MessageValidator().validate(envelope, (error) => (error === null ? resolve(true) : reject(error)));
  });
const bySnsPayloadValidator: Judge = (envelope) => new SnsPayloadValidator().validate(envelope);
const JUDGES = { 'sns-validator': bySnsValidator, 'sns-payload-validator': bySnsPayloadValidator };

async function isTakenBy(
  judge: (envelope: object) => Promise<unknown>,
  { body }: ReceiptCall,
): Promise<void> {
  await using vendor = await startStandIn(() => ({ status: 200, body: SNS_CERTIFICATE }));
  using _ = leadVendorCalls(vendor.origin);
  await judge(JSON.parse(Buffer.from(body).toString()) as object);
}

const envelopes = (provider: string, said: object, version: '1' | '2'): Omit<Oracle, 'name'> => ({
  provider,
  account: { publicConfig: { ...settings, topicArn: TOPIC_ARN }, secretConfig },
  call: { headers: { 'content-type': 'text/plain; charset=UTF-8' } },
  signedByUs: (call) => ({
    ...call,
    body: Buffer.from(JSON.stringify({ ...signedEnvelope(said, version), SigningCertURL })),
  }),
  changed: (call) => ({
    ...call,
    body: Buffer.from(Buffer.from(call.body).toString().replace('12:00:00', '12:00:01')),
  }),
  context: snsContext().context,
});
const NOTIFICATION = { Message: '{"eventType":"Delivery","note":"Grüße\\n"}', Subject: 'Amazon SES' };

oracles(
  ['aws-sms', 'ses'].flatMap((provider) =>
    Object.entries(JUDGES).flatMap(([name, judge]) =>
      (['1', '2'] as const).flatMap((version) => [
        {
          ...envelopes(provider, NOTIFICATION, version),
          name: `a notification of version ${version}, by ${name}`,
          takenByVendor: (call: ReceiptCall) => isTakenBy(judge, call),
        },
        {
          ...envelopes(provider, { Type: 'SubscriptionConfirmation', ...CONFIRMATION }, version),
          name: `a confirmation of version ${version}, by ${name}`,
          takenByVendor: (call: ReceiptCall) => isTakenBy(judge, call),
        },
      ]),
    ),
  ),
);

/**
 * https://docs.aws.amazon.com/sns/latest/dg/sns-verify-signature-of-message.html: the signature of both confirmations covers the
 * token.
 */
test('ses: an UnsubscribeConfirmation is genuine to us and one library; the other omits its token', async () => {
  const oracle = envelopes('ses', { Type: 'UnsubscribeConfirmation', ...CONFIRMATION }, '2');
  const call = await oracle.signedByUs(callOf(oracle));
  expect(await verdictOf(oracle, call)).toEqual({ kind: 'genuine' });
  // Not in parallel, because each judge redirects all calls of the process.
  await expect(isTakenBy(bySnsPayloadValidator, call)).resolves.toBeUndefined();
  await expect(isTakenBy(bySnsValidator, call)).rejects.toThrow(/signature/);
});
