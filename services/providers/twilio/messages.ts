import { z } from 'zod';
import type { OutboundMessage } from '#core/domain/message/content.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import type { ProviderContext, Verification } from '../provider.ts';
import {
  accountFault,
  classify,
  failureOf,
  parseJson,
  verificationOfRefusal,
  verificationUnknown,
  type Response,
  type VendorError,
} from '../classify-error.ts';
import { outcomeOfSend } from '../outcome-of-send.ts';
import { secretsToRedact, basicAuthorization, vendorOrigin, type Account } from './account.ts';
import { TWILIO_CODES } from './outcomes.ts';
import { statusCallback } from './receipts.ts';

const VALIDITY_S_MAX = 36_000;
/** A key without the permission, or one that does not belong to the account, https://www.twilio.com/docs/api/errors/70051. */
const NOT_PERMITTED = '70051';

const Created = z.looseObject({
  sid: z.string().min(1),
  from: z.string().min(1).optional().catch(undefined),
});
/** The classic format, and the RFC 9457 format of newer products. */
const ErrorBody = z.looseObject({
  code: z.union([z.number(), z.string()]).optional().catch(undefined),
  message: z.string().optional().catch(undefined),
  title: z.string().optional().catch(undefined),
  detail: z.string().optional().catch(undefined),
});
const AccountBody = z.looseObject({ status: z.string() });
const MessagesBody = z.looseObject({ messages: z.array(z.unknown()) });

/** The channel-specific parts of a message. */
export type TwilioMessage = Pick<OutboundMessage, 'id' | 'to' | 'from' | 'expiresAt' | 'receiptUrl'> & {
  /** Prefix of phone numbers: `whatsapp:`. */
  readonly prefix: '' | 'whatsapp:';
  readonly content: Readonly<Record<string, string>>;
  /** Texts of the content that must not appear in an error. */
  readonly texts: readonly string[];
};

/** https://www.twilio.com/docs/messaging/api/message-resource#create-a-message-resource */
export async function createMessage(
  message: TwilioMessage,
  account: Account,
  context: ProviderContext,
): Promise<Outcome> {
  const from = sender(message, account.config);
  const result = await context.http({
    method: 'POST',
    url: `${context.origin(vendorOrigin(account))}/2010-04-01/Accounts/${account.config.accountSid}/Messages.json`,
    headers: {
      authorization: basicAuthorization(account),
      accept: 'application/json',
      'content-type': 'application/x-www-form-urlencoded',
    },
    body: new URLSearchParams({
      To: message.prefix + message.to,
      ...from,
      ...message.content,
      ...validity(message.expiresAt - context.epochMs()),
      ...(message.receiptUrl === undefined
        ? {}
        : { StatusCallback: statusCallback(message.receiptUrl, message.id) }),
    }).toString(),
  });
  return outcomeOfSend(result, {
    judge: (response) => classify(response, TWILIO_CODES, readError),
    hidden: [...secretsToRedact(account), message.to, ...message.texts, message.receiptUrl ?? ''],
    now: context.epochMs(),
    accepted: ({ text }) => {
      const created = Created.safeParse(parseJson(text)).data;
      // A messaging service picks its number later; until then only the service's own id is known.
      const used = created?.from ?? Object.values(from)[0];
      return created && { providerMessageId: created.sid, sender: used?.replace(/^whatsapp:/, '') };
    },
  });
}

/**
 * Reads the account itself; the response contains its state. With an API key it reads the list of messages: a standard key sends,
 * but may not read the account, and Twilio answers as to a wrong key. A restricted key may be able to send and not to read even
 * that, so a missing permission says nothing about it.
 */
export async function checkCredential(account: Account, context: ProviderContext): Promise<Verification> {
  const { accountSid, apiKeySid } = account.config;
  const resource = apiKeySid === undefined ? `${accountSid}.json` : `${accountSid}/Messages.json?PageSize=1`;
  const result = await context.http({
    method: 'GET',
    url: `${context.origin(vendorOrigin(account))}/2010-04-01/Accounts/${resource}`,
    headers: { authorization: basicAuthorization(account), accept: 'application/json' },
  });
  if (result.kind !== 'response') return verificationUnknown(result);
  if (result.status === 200)
    return apiKeySid === undefined ? verdictOfAccount(result) : verdictOfList(result);
  const classified = classify(result, TWILIO_CODES, readError);
  const verdict = verificationOfRefusal(result, classified, secretsToRedact(account));
  const mayBeRestricted = result.status === 403 || classified.vendorError.providerCode === NOT_PERMITTED;
  return apiKeySid !== undefined && mayBeRestricted && verdict.kind === 'invalid'
    ? { ...verdict, kind: 'unknown' }
    : verdict;
}

function sender({ from, prefix }: TwilioMessage, config: Account['config']): Record<string, string> {
  if (from !== undefined) return { From: prefix + from };
  if (config.messagingServiceSid !== undefined) return { MessagingServiceSid: config.messagingServiceSid };
  return config.from === undefined ? {} : { From: prefix + config.from };
}

/** Prevents the provider from delivering a message after its expiry; Twilio's maximum is also its default. */
function validity(remainingMs: number): Record<string, string> {
  const seconds = Math.max(1, Math.floor(remainingMs / 1_000));
  return seconds >= VALIDITY_S_MAX ? {} : { ValidityPeriod: String(seconds) };
}

/** Reads the code and text of any refusal by Twilio's API. */
export function readError(body: unknown): VendorError {
  const { code, message, detail, title } = ErrorBody.safeParse(body).data ?? {};
  return {
    providerCode: code === undefined ? undefined : String(code),
    providerMessage: message ?? detail ?? title,
  };
}

function verdictOfList(response: Response): Verification {
  return MessagesBody.safeParse(parseJson(response.text)).success
    ? { kind: 'valid' }
    : verificationUnknown(response);
}

function verdictOfAccount(response: Response): Verification {
  const status = AccountBody.safeParse(parseJson(response.text)).data?.status;
  if (status === undefined) return verificationUnknown(response);
  if (status === 'active') return { kind: 'valid' };
  const classified = { meaning: accountFault('account_suspended'), vendorError: { providerCode: status } };
  return { kind: 'invalid', failure: failureOf(response, classified, []) };
}
