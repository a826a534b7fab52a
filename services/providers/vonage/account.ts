import { z } from 'zod';
import { isSmsSender, SMS_SENDER_RULE } from '#core/domain/message/sms-sender.ts';
import { optionalToken, token } from '../fields.ts';
import { dltSettings, type DltConfig } from '../india-dlt.ts';
import type { FieldFault } from '../provider.ts';
import { secretStrings } from '../redact.ts';
import { isRsaPrivateKey, RSA_KEY_MESSAGE } from '../rsa-private-key.ts';

export const SIGNATURE_METHODS = ['md5hash', 'md5', 'sha1', 'sha256', 'sha512'] as const;
export type SignatureMethod = (typeof SIGNATURE_METHODS)[number];

const apiKey = z
  .string()
  .regex(/^[A-Za-z0-9]{1,64}$/, 'Must be letters and digits')
  .describe('API key of the account.');

const rest = {
  applicationId: z
    .string()
    .regex(/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, 'Must be a UUID')
    .optional()
    .describe(
      'Id of the application that the Messages API calls use; needs secretConfig.privateKey. Without it they use API key and secret, and Vonage may send no receipts.',
    ),
  region: z
    .enum(['global', 'eu', 'us', 'ap'])
    .default('global')
    .describe('Where calls of the Messages API go: global, eu, us or ap. Default global.'),
};

export const smsConfig = z.object({
  apiKey,
  from: z
    .string()
    .refine(isSmsSender, SMS_SENDER_RULE)
    .describe('Sender: an E.164 number, a short code or an alphanumeric sender id.'),
  api: z
    .enum(['messages', 'sms'])
    .default('messages')
    .describe(
      'Product that sends: messages (Messages API, the default; at most 1000 characters) or sms (SMS API).',
    ),
  ...rest,
  signatureMethod: z
    .enum(SIGNATURE_METHODS)
    .default('md5hash')
    .describe(
      'How the SMS API signs receipts, as the settings of the account have it: md5hash (the default), md5, sha1, sha256 or sha512. The Messages API ignores this.',
    ),
  ...dltSettings,
});

export const whatsappConfig = z.object({
  apiKey,
  from: z
    .string()
    .regex(/^\+[1-9]\d{1,14}$/, 'Must be an E.164 number')
    .describe('Sender: the E.164 number of a WhatsApp Business account.'),
  ...rest,
});

export const secrets = z.object({
  apiSecret: token('API secret of the account.'),
  privateKey: z
    .string()
    .max(16_384, 'Must be at most 16384 characters')
    .transform((pem) => pem.replaceAll('\\n', '\n'))
    .refine(isRsaPrivateKey, RSA_KEY_MESSAGE)
    .optional()
    .describe('Private key of the application, PEM; line breaks may be written as \\n.'),
  signatureSecret: optionalToken(
    'Secret with which the account signs receipts. If it is set, unsigned receipts are refused; else only the token in the receipt URL authenticates them.',
  ),
});

export type Account = {
  readonly config: DltConfig & {
    readonly apiKey: string;
    readonly from: string;
    readonly applicationId?: string | undefined;
    readonly region: keyof typeof MESSAGES_ORIGINS;
  };
  readonly secrets: z.output<typeof secrets>;
};

export const MESSAGES_ORIGINS = {
  global: 'https://api.nexmo.com',
  eu: 'https://api-eu.vonage.com',
  us: 'https://api-us.vonage.com',
  ap: 'https://api-ap.vonage.com',
} as const;
export const REST_ORIGIN = 'https://rest.nexmo.com';

export function checkAccount({ config, secrets }: Account): readonly FieldFault[] {
  if ((config.applicationId === undefined) === (secrets.privateKey === undefined)) return [];
  const [field, other] =
    config.applicationId === undefined
      ? ['publicConfig.applicationId', 'secretConfig.privateKey']
      : ['secretConfig.privateKey', 'publicConfig.applicationId'];
  return [{ field, rule: 'required', message: `Required with ${other}` }];
}

export function basicAuthorization({ config, secrets }: Account): string {
  return `Basic ${Buffer.from(`${config.apiKey}:${secrets.apiSecret}`).toString('base64')}`;
}

export function secretsToRedact({ config, secrets }: Account): string[] {
  return [...secretStrings(secrets), `${config.apiKey}:${secrets.apiSecret}`];
}
