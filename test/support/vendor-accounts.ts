import { generateKeyPairSync, randomBytes } from 'node:crypto';
import type { Channel } from '#core/domain/message/channel.ts';
import { PROVIDERS } from '#providers/registry.gen.ts';
import { STAND_IN_PUBLIC_KEY as SENDGRID_KEY } from '#providers/sendgrid/stand-in-key.ts';
import type { SigningAccount } from '#providers/stand-in.ts';
import { STAND_IN_PUBLIC_KEY as TELNYX_KEY } from '#providers/telnyx/stand-in-key.ts';

const SENDER = '+15005550006';
const pem = (format: 'pkcs8') => ({ type: format, format: 'pem' }) as const;
const rsaKey = generateKeyPairSync('rsa', { modulusLength: 2_048 }).privateKey.export(pem('pkcs8'));
const ecKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export(pem('pkcs8'));
const hex = (bytes: number): string => randomBytes(bytes).toString('hex');
const whsec = (): string => `whsec_${randomBytes(24).toString('base64')}`;

const aws: SigningAccount = {
  publicConfig: {
    region: 'eu-central-1',
    accessKeyId: 'AKIAIOSFODNN7EXAMPLE',
    configurationSetName: 'reported',
    topicArn: 'arn:aws:sns:eu-central-1:123456789012:reports',
  },
  secretConfig: { secretAccessKey: hex(20) },
};
const twilio: SigningAccount = {
  publicConfig: { accountSid: `AC${hex(16)}`, from: SENDER },
  secretConfig: { authToken: hex(16) },
};
const infobip: SigningAccount = {
  publicConfig: { baseUrl: 'https://abc123.api.infobip.com', from: SENDER },
  secretConfig: { apiKey: hex(32) },
};
const vonage: SigningAccount = {
  publicConfig: { apiKey: 'abcd1234', from: SENDER, applicationId: '0f4d6a5e-1111-4222-8333-444455556666' },
  secretConfig: { apiSecret: hex(8), privateKey: rsaKey, signatureSecret: hex(32) },
};
const gateway: SigningAccount = {
  publicConfig: { url: 'https://gateway.acme.example/messages' },
  secretConfig: { signingSecret: whsec() },
};

/** An account of every provider in the catalog with an HTTP API, with all secrets that its receipts can be signed with. */
export const VENDOR_ACCOUNTS: Readonly<Record<string, SigningAccount>> = {
  apns: {
    publicConfig: { teamId: 'TEAM123456', keyId: 'KEY1234567', bundleId: 'com.acme.app' },
    secretConfig: { privateKey: ecKey },
  },
  'aws-sms': { ...aws, publicConfig: { ...aws.publicConfig, mode: 'eum' } },
  fcm: {
    publicConfig: { projectId: 'my-app', clientEmail: 'sender@my-app.iam.gserviceaccount.com' },
    secretConfig: { privateKey: rsaKey },
  },
  infobip,
  'infobip-whatsapp': infobip,
  mailgun: {
    publicConfig: { domain: 'mg.acme.example' },
    secretConfig: { apiKey: hex(16), webhookSigningKey: hex(16) },
  },
  messagebird: {
    publicConfig: { originator: SENDER },
    secretConfig: { accessKey: hex(12), signingKey: hex(16) },
  },
  plivo: {
    publicConfig: { authId: 'MAXXXXXXXXXXXXXXXXXX', from: SENDER },
    secretConfig: { authToken: hex(20) },
  },
  postmark: {
    publicConfig: {},
    secretConfig: { serverToken: '00000000-1111-4222-8333-444455556666' },
  },
  resend: { publicConfig: {}, secretConfig: { apiKey: `re_${hex(12)}`, webhookSecret: whsec() } },
  sendgrid: {
    publicConfig: { webhookPublicKey: SENDGRID_KEY },
    secretConfig: { apiKey: `SG.${hex(11)}.${hex(20)}` },
  },
  ses: aws,
  sinch: {
    publicConfig: { servicePlanId: 'plan1', from: SENDER },
    secretConfig: { apiToken: hex(16), webhookSecret: hex(16) },
  },
  telnyx: {
    publicConfig: { from: SENDER, publicKey: TELNYX_KEY },
    secretConfig: { apiKey: `KEY${hex(16)}` },
  },
  twilio,
  'twilio-whatsapp': twilio,
  vonage,
  'vonage-whatsapp': vonage,
  'webhook-email': gateway,
  'webhook-push': gateway,
  'webhook-sms': gateway,
  'webhook-whatsapp': gateway,
  'whatsapp-cloud': {
    publicConfig: { phoneNumberId: '123456789012345' },
    secretConfig: { accessToken: `EAA${hex(40)}`, appSecret: hex(16) },
  },
};

/** Returns a message of the provider's channel, whose recipient determines the stand-in's behaviour. */
export function messageOf(provider: string, behaviour: 'delivered' | 'invalid' | 'silent') {
  const channel = PROVIDERS.get(provider)?.channel as Channel;
  const number = { delivered: '+14155550199', invalid: '+15550000002', silent: '+15550000007' }[behaviour];
  switch (channel) {
    case 'email':
      return {
        channel,
        to: `${behaviour}@simulator.invalid`,
        from: 'Acme <hello@acme.example>',
        subject: 'Hello',
        bodyText: 'Hello',
      };
    case 'push':
      return {
        channel,
        to: provider === 'apns' ? 'ab'.repeat(32) : behaviour,
        title: 'Hello',
        body: 'Hello',
      };
    case 'sms':
    case 'whatsapp':
      return { channel, to: number, body: 'Hello' };
  }
}
