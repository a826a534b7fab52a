import { generateKeyPairSync } from 'node:crypto';
import type { ProviderKind } from '#providers/registry.gen.ts';

/** The settings and the secrets of an account, as a tenant sends them. */
export type CatalogAccount = {
  readonly publicConfig: Readonly<Record<string, unknown>>;
  readonly secretConfig: Readonly<Record<string, string>>;
};

const FROM_NUMBER = '+15005550006';
const FROM_MAIL = 'news@acme.example';
const elliptic = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const rsa = generateKeyPairSync('rsa', { modulusLength: 2_048 });
const edwards = generateKeyPairSync('ed25519');
const pem = (key: { readonly privateKey: typeof rsa.privateKey }): string =>
  key.privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;

const AWS = { region: 'eu-central-1', accessKeyId: 'AKIAIOSFODNN7EXAMPLE' };
const AWS_SECRETS = { secretAccessKey: 'secret-access-key-of-tests', sessionToken: 'session-token-of-tests' };
const TOPIC = 'arn:aws:sns:eu-central-1:123456789012:events';
const INFOBIP = {
  publicConfig: { baseUrl: 'xyz123.api.infobip.com', from: FROM_NUMBER },
  secretConfig: { apiKey: 'infobip-api-key-of-tests' },
};
const TWILIO = {
  publicConfig: { accountSid: `AC${'0'.repeat(32)}`, from: FROM_NUMBER, apiKeySid: `SK${'0'.repeat(32)}` },
  secretConfig: { authToken: 'a'.repeat(32), apiKeySecret: 'twilio-key-secret-of-tests' },
};
const vonageSecrets = {
  apiSecret: 'vonage-api-secret-of-tests',
  privateKey: pem(rsa),
  signatureSecret: 'vonage-signature-secret-of-tests',
};
const VONAGE = {
  apiKey: 'abcd1234',
  from: FROM_NUMBER,
  applicationId: '7f3b2a34-1111-4222-8333-444455556666',
};
const GATEWAY = {
  publicConfig: { url: 'https://gateway.acme.example/messages' },
  secretConfig: { signingSecret: `whsec_${Buffer.alloc(32, 7).toString('base64')}` },
};

/** One account of each provider in the catalog, with every secret that it can have. */
export const CATALOG_ACCOUNTS: Readonly<Record<ProviderKind, CatalogAccount>> = {
  apns: {
    publicConfig: { teamId: 'TEAM123456', keyId: 'KEY1234567', bundleId: 'com.example.app' },
    secretConfig: { privateKey: pem(elliptic) },
  },
  'aws-sms': {
    publicConfig: { ...AWS, originationIdentity: 'pool-1234', topicArn: TOPIC },
    secretConfig: AWS_SECRETS,
  },
  fcm: {
    publicConfig: { projectId: 'my-app-1a2b3', clientEmail: 'd@my-app-1a2b3.iam.gserviceaccount.com' },
    secretConfig: { privateKey: pem(rsa) },
  },
  infobip: INFOBIP,
  'infobip-whatsapp': INFOBIP,
  mailgun: {
    publicConfig: { domain: 'mg.acme.example', from: FROM_MAIL },
    secretConfig: { apiKey: 'mailgun-api-key-of-tests', webhookSigningKey: 'mailgun-signing-key-of-tests' },
  },
  messagebird: {
    publicConfig: { originator: FROM_NUMBER },
    secretConfig: { accessKey: 'messagebird-access-key-of-tests', signingKey: 'messagebird-signing-key' },
  },
  plivo: {
    publicConfig: { authId: 'MAABCDEFGHIJKLMNOPQR', from: FROM_NUMBER },
    secretConfig: { authToken: 'plivo-auth-token-of-tests' },
  },
  postmark: {
    publicConfig: { from: FROM_MAIL },
    secretConfig: { serverToken: 'postmark-server-token-of-tests' },
  },
  resend: {
    publicConfig: { from: FROM_MAIL },
    secretConfig: { apiKey: 're_api_key_of_tests', webhookSecret: GATEWAY.secretConfig.signingSecret },
  },
  sendgrid: {
    publicConfig: {
      from: FROM_MAIL,
      webhookPublicKey: elliptic.publicKey.export({ type: 'spki', format: 'der' }).toString('base64'),
    },
    secretConfig: { apiKey: 'SG.key-of-tests.secret-of-tests' },
  },
  ses: { publicConfig: { ...AWS, from: FROM_MAIL, topicArn: TOPIC }, secretConfig: AWS_SECRETS },
  'simulator-email': { publicConfig: {}, secretConfig: {} },
  'simulator-push': { publicConfig: {}, secretConfig: {} },
  'simulator-sms': { publicConfig: {}, secretConfig: {} },
  'simulator-whatsapp': { publicConfig: {}, secretConfig: {} },
  sinch: {
    publicConfig: { servicePlanId: 'plan-1', region: 'eu', from: FROM_NUMBER },
    secretConfig: { apiToken: 'sinch-api-token-of-tests', webhookSecret: 'sinch-webhook-secret-of-tests' },
  },
  smtp: {
    publicConfig: { host: 'mail.acme.example', username: 'mailer', from: FROM_MAIL },
    secretConfig: { password: 'smtp-password-of-tests' },
  },
  telnyx: {
    publicConfig: {
      from: FROM_NUMBER,
      publicKey: edwards.publicKey.export({ type: 'spki', format: 'der' }).subarray(-32).toString('base64'),
    },
    secretConfig: { apiKey: 'telnyx-api-key-of-tests' },
  },
  twilio: TWILIO,
  'twilio-whatsapp': TWILIO,
  vonage: { publicConfig: { ...VONAGE, signatureMethod: 'sha256' }, secretConfig: vonageSecrets },
  'vonage-whatsapp': { publicConfig: VONAGE, secretConfig: vonageSecrets },
  'webhook-email': { ...GATEWAY, publicConfig: { ...GATEWAY.publicConfig, from: FROM_MAIL } },
  'webhook-push': GATEWAY,
  'webhook-sms': GATEWAY,
  'webhook-whatsapp': GATEWAY,
  'whatsapp-cloud': {
    publicConfig: { phoneNumberId: '123456789012345' },
    secretConfig: { accessToken: 'EAA-access-token-of-tests', appSecret: 'meta-app-secret-of-tests' },
  },
};
