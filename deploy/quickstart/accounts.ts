import { createHash, generateKeyPair, randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import type { Channel } from '#core/domain/message/channel.ts';

export type ProviderAccount = {
  readonly channel: Channel;
  readonly provider: string;
  readonly label: string;
  readonly publicConfig: Readonly<Record<string, unknown>>;
  /** Created only when needed: an existing account keeps its secret. */
  readonly secretConfig: () => Promise<Readonly<Record<string, unknown>>>;
};

/** The provider of the quick start's first mail. */
export const REPORTED_MAIL = 'resend';

/** The accounts of the sms route: the second one takes over when the first one fails. */
export const FAILED_OVER = [
  { provider: 'twilio', label: 'Twilio (stand-in)' },
  { provider: 'plivo', label: 'Plivo (stand-in)' },
] as const;

/** Returns another sms account that a route can fail over to. */
export function nextSmsAccount(slug: string): ProviderAccount {
  const digest = createHash('sha256').update(slug).digest('hex');
  return {
    channel: 'sms',
    ...FAILED_OVER[1],
    publicConfig: { authId: `MA${digest.slice(0, 18).toUpperCase()}`, from: '+15005550006' },
    secretConfig: async () => ({ authToken: randomBytes(20).toString('hex') }),
  };
}

/**
 * Returns one account per channel, with credentials in the vendors' formats, plus one whose mails are reported on, which a
 * mail server never does. Each tenant has its own identifiers.
 */
export function accountsOf(slug: string, smtpPort: number): readonly ProviderAccount[] {
  const digest = createHash('sha256').update(slug).digest('hex');
  const numberOf = (length: number): string => String(BigInt(`0x${digest}`)).slice(0, length);
  return [
    {
      channel: 'sms',
      ...FAILED_OVER[0],
      publicConfig: { accountSid: `AC${digest.slice(0, 32)}`, from: '+15005550006' },
      secretConfig: async () => ({ authToken: randomBytes(16).toString('hex') }),
    },
    {
      channel: 'email',
      provider: 'smtp',
      label: 'Local inbox',
      publicConfig: { host: '127.0.0.1', port: smtpPort, username: slug },
      secretConfig: async () => ({ password: randomBytes(16).toString('hex') }),
    },
    {
      channel: 'email',
      provider: REPORTED_MAIL,
      label: 'Resend (stand-in)',
      publicConfig: { from: `hello@${slug}.example` },
      secretConfig: async () => ({
        apiKey: `re_${randomBytes(16).toString('hex')}`,
        webhookSecret: `whsec_${randomBytes(24).toString('base64')}`,
      }),
    },
    {
      channel: 'push',
      provider: 'fcm',
      label: 'FCM (stand-in)',
      publicConfig: {
        projectId: `${slug}-push`,
        clientEmail: `despatch@${slug}-push.iam.gserviceaccount.com`,
      },
      secretConfig: async () => ({ privateKey: await rsaKey() }),
    },
    {
      channel: 'whatsapp',
      provider: 'whatsapp-cloud',
      label: 'WhatsApp Cloud API (stand-in)',
      publicConfig: { phoneNumberId: numberOf(15) },
      secretConfig: async () => ({
        accessToken: `EAA${randomBytes(48).toString('hex')}`,
        appSecret: randomBytes(16).toString('hex'),
      }),
    },
  ];
}

async function rsaKey(): Promise<string> {
  const { privateKey } = await promisify(generateKeyPair)('rsa', { modulusLength: 2048 });
  return privateKey.export({ type: 'pkcs8', format: 'pem' }) as string;
}
