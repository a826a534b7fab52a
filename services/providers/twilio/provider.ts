import { z } from 'zod';
import type { Outcome } from '#core/domain/outcome.ts';
import { isSmsSender, SMS_SENDER_RULE } from '#core/domain/sms-sender.ts';
import { hostLabel, optionalToken, token } from '../fields.ts';
import { defineProvider, type Verification } from '../provider.ts';
import { secretStrings } from '../redact.ts';
import {
  account,
  doubted,
  failureOf,
  isSuccess,
  classify,
  parseJson,
  refused,
  unanswered,
  unreadable,
  unverified,
  type Response,
  type VendorError,
} from '../classify-error.ts';
import { TWILIO_CODES } from './outcomes.ts';
import { statusCallback, twilioReceipts } from './receipts.ts';

const VALIDITY_S_MAX = 36_000;
/** https://www.twilio.com/docs/api/errors/21617 */
const BODY_CHARACTERS_MAX = 1_600;

const config = z
  .object({
    accountSid: z
      .string()
      .regex(/^AC[0-9a-fA-F]{32}$/, 'Must be AC followed by 32 hexadecimal digits')
      .describe('Account SID: AC and 32 hexadecimal digits.'),
    from: z
      .string()
      .refine(isSmsSender, SMS_SENDER_RULE)
      .optional()
      .describe(
        'Sender: an E.164 number, a short code or an alphanumeric sender id. This or messagingServiceSid.',
      ),
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
  })
  .refine((value) => value.from !== undefined || value.messagingServiceSid !== undefined, {
    path: ['from'],
    message: 'One of from and messagingServiceSid is required',
    params: { rule: 'required' },
  });

const secrets = z.object({
  authToken: token('Auth token of the account; also the key that receipts are signed with.'),
  apiKeySecret: optionalToken('Secret of the API key named by apiKeySid.'),
});

type Account = { readonly config: z.output<typeof config>; readonly secrets: z.output<typeof secrets> };

const Created = z.looseObject({
  sid: z.string().min(1),
  from: z.string().min(1).optional().catch(undefined),
});
/** The classic shape and the RFC 9457 one of newer products. */
const ErrorBody = z.looseObject({
  code: z.union([z.number(), z.string()]).optional().catch(undefined),
  message: z.string().optional().catch(undefined),
  title: z.string().optional().catch(undefined),
  detail: z.string().optional().catch(undefined),
});
const AccountBody = z.looseObject({ status: z.string() });

export default defineProvider({
  id: 'twilio',
  channel: 'sms',
  name: 'Twilio Programmable Messaging',
  dedupe: 'none',
  receipts: twilioReceipts,
  bodyCharactersMax: BODY_CHARACTERS_MAX,
  config,
  secrets,
  secretRoute: {
    accountSid: true,
    apiKeySid: true,
    // Tests break this (mutant: secret-route): changing where a secret is sent requires the secret again.
    region: true,
    edge: true,
    from: false,
    messagingServiceSid: false,
  },

  check({ config, secrets }) {
    if (config.apiKeySid === undefined || secrets.apiKeySecret !== undefined) return [];
    return [
      {
        field: 'secretConfig.apiKeySecret',
        rule: 'required',
        message: 'Required with publicConfig.apiKeySid',
      },
    ];
  },

  async send(message, account, context): Promise<Outcome> {
    const from = sender(message.from, account.config);
    const result = await context.http({
      method: 'POST',
      url: `${context.origin(vendorOrigin(account))}/2010-04-01/Accounts/${account.config.accountSid}/Messages.json`,
      headers: {
        authorization: basicAuthorization(account),
        accept: 'application/json',
        'content-type': 'application/x-www-form-urlencoded',
      },
      body: new URLSearchParams({
        To: message.to,
        ...from,
        Body: message.content.body,
        ...validity(message.expiresAt - context.now()),
        ...(message.receiptUrl === undefined
          ? {}
          : { StatusCallback: statusCallback(message.receiptUrl, message.id) }),
      }).toString(),
    });
    if (result.kind !== 'response') return unanswered(result);
    const hidden = [...hiddenOf(account), message.to, message.content.body, message.receiptUrl ?? ''];
    if (!isSuccess(result))
      return refused(result, classify(result, TWILIO_CODES, read), hidden, context.now());
    const created = Created.safeParse(parseJson(result.text));
    if (!created.success) return unreadable(result);
    return {
      kind: 'accepted',
      providerMessageId: created.data.sid,
      httpStatus: result.status,
      ...senderUsed(created.data.from ?? Object.values(from)[0]),
    };
  },

  async verify(credentials, context): Promise<Verification> {
    const result = await context.http({
      method: 'GET',
      url: `${context.origin(vendorOrigin(credentials))}/2010-04-01/Accounts/${credentials.config.accountSid}.json`,
      headers: { authorization: basicAuthorization(credentials), accept: 'application/json' },
    });
    if (result.kind !== 'response') return unverified(result);
    if (result.status === 200) return verdictOfAccount(result);
    return doubted(result, classify(result, TWILIO_CODES, read), hiddenOf(credentials));
  },
});

function vendorOrigin({ config }: Account): string {
  if (config.edge === undefined && config.region === undefined) return 'https://api.twilio.com';
  const parts = ['api', config.edge, config.region ?? 'us1', 'twilio', 'com'];
  return `https://${parts.filter((part) => part !== undefined).join('.')}`;
}

function basicAuthorization({ config, secrets }: Account): string {
  const pair =
    config.apiKeySid === undefined
      ? `${config.accountSid}:${secrets.authToken}`
      : `${config.apiKeySid}:${secrets.apiKeySecret ?? ''}`;
  return `Basic ${Buffer.from(pair).toString('base64')}`;
}

function sender(from: string | undefined, config: Account['config']): Record<string, string> {
  if (from !== undefined) return { From: from };
  if (config.messagingServiceSid !== undefined) return { MessagingServiceSid: config.messagingServiceSid };
  return config.from === undefined ? {} : { From: config.from };
}

/** A messaging service chooses its number later: until then its own id is all that is known of the sender. */
function senderUsed(sender: string | undefined): { readonly sender?: string } {
  return sender === undefined ? {} : { sender };
}

/** Keeps the provider from delivering a message after its expiry; its own maximum is also its default. */
function validity(remainingMs: number): Record<string, string> {
  const seconds = Math.max(1, Math.floor(remainingMs / 1_000));
  return seconds >= VALIDITY_S_MAX ? {} : { ValidityPeriod: String(seconds) };
}

function read(body: unknown): VendorError {
  const { code, message, detail, title } = ErrorBody.safeParse(body).data ?? {};
  return {
    providerCode: code === undefined ? undefined : String(code),
    providerMessage: message ?? detail ?? title,
  };
}

function verdictOfAccount(response: Response): Verification {
  const status = AccountBody.safeParse(parseJson(response.text)).data?.status;
  if (status === undefined) return unverified(response);
  if (status === 'active') return { kind: 'valid' };
  const classified = { meaning: account('account_suspended'), vendorError: { providerCode: status } };
  return { kind: 'invalid', failure: failureOf(response, classified, []) };
}

function hiddenOf({ config, secrets }: Account): string[] {
  const pair = `${config.apiKeySid ?? config.accountSid}:${secrets.apiKeySecret ?? secrets.authToken}`;
  return [...secretStrings(secrets), pair];
}
