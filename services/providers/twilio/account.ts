import { z } from 'zod';
import { isSmsSender, SMS_SENDER_RULE } from '#core/domain/message/sms-sender.ts';
import { hostLabel, optionalToken, token } from '../fields.ts';
import type { FieldFault, SecretRoute } from '../provider.ts';
import { secretStrings } from '../redact.ts';

const accountSid = z
  .string()
  .regex(/^AC[0-9a-fA-F]{32}$/, 'Must be AC followed by 32 hexadecimal digits')
  .describe('Account SID: AC and 32 hexadecimal digits.');

const rest = {
  messagingServiceSid: z
    .string()
    .regex(/^MG[0-9a-fA-F]{32}$/, 'Must be MG followed by 32 hexadecimal digits')
    .optional()
    .describe(
      'Messaging Service SID: MG and 32 hexadecimal digits. Chooses the sender where the message names none.',
    ),
  apiKeySid: z
    .string()
    .regex(/^SK[0-9a-fA-F]{32}$/, 'Must be SK followed by 32 hexadecimal digits')
    .optional()
    .describe(
      'API key SID: SK and 32 hexadecimal digits. Calls then use it with apiKeySecret instead of the auth token.',
    ),
  region: hostLabel('Processing region, for example ie1.').optional(),
  edge: hostLabel('Edge location, for example dublin; without a region it implies us1.').optional(),
};

const NO_SENDER = {
  path: ['from'],
  error: 'One of from and messagingServiceSid is required',
  params: { rule: 'required' },
};
const hasSender = ({ from, messagingServiceSid }: Pick<Account['config'], 'from' | 'messagingServiceSid'>) =>
  from !== undefined || messagingServiceSid !== undefined;

export const smsConfig = z
  .object({
    accountSid,
    from: z
      .string()
      .refine(isSmsSender, SMS_SENDER_RULE)
      .optional()
      .describe(
        'Sender: an E.164 number, a short code or an alphanumeric sender id. This or messagingServiceSid.',
      ),
    ...rest,
  })
  .refine(hasSender, NO_SENDER);

export const whatsappConfig = z
  .object({
    accountSid,
    from: z
      .string()
      .regex(/^\+[1-9]\d{1,14}$/, 'Must be an E.164 number')
      .optional()
      .describe('Sender: the E.164 number of a WhatsApp sender. This or messagingServiceSid.'),
    ...rest,
  })
  .refine(hasSender, NO_SENDER);

export const secrets = z.object({
  authToken: token('Auth token of the account; also the key that receipts are signed with.'),
  apiKeySecret: optionalToken('Secret of the API key named by apiKeySid.'),
});

export type Account = {
  readonly config: {
    readonly accountSid: string;
    readonly from?: string | undefined;
    readonly messagingServiceSid?: string | undefined;
    readonly apiKeySid?: string | undefined;
    readonly region?: string | undefined;
    readonly edge?: string | undefined;
  };
  readonly secrets: z.output<typeof secrets>;
};

export const secretRoute: SecretRoute<Account['config']> = {
  accountSid: true,
  apiKeySid: true,
  // Tests break this (mutant: secret-route): changing where a secret is sent requires the secret again.
  region: true,
  edge: true,
  from: false,
  messagingServiceSid: false,
};

export function checkAccount({ config, secrets }: Account): readonly FieldFault[] {
  if (config.apiKeySid === undefined || secrets.apiKeySecret !== undefined) return [];
  return [
    {
      field: 'secretConfig.apiKeySecret',
      rule: 'required',
      message: 'Required with publicConfig.apiKeySid',
    },
  ];
}

export function vendorOrigin({ config }: Account): string {
  if (config.edge === undefined && config.region === undefined) return 'https://api.twilio.com';
  const parts = ['api', config.edge, config.region ?? 'us1', 'twilio', 'com'];
  return `https://${parts.filter((part) => part !== undefined).join('.')}`;
}

export function basicAuthorization({ config, secrets }: Account): string {
  const pair =
    config.apiKeySid === undefined
      ? `${config.accountSid}:${secrets.authToken}`
      : `${config.apiKeySid}:${secrets.apiKeySecret ?? ''}`;
  return `Basic ${Buffer.from(pair).toString('base64')}`;
}

export function secretsToRedact({ config, secrets }: Account): string[] {
  const pair = `${config.apiKeySid ?? config.accountSid}:${secrets.apiKeySecret ?? secrets.authToken}`;
  return [...secretStrings(secrets), pair];
}
