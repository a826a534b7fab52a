import { z } from 'zod';
import type { OutboundFor } from '#core/domain/message/content.ts';
import type { Failure } from '#core/domain/sending/failure.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import {
  accountFault,
  failureOf,
  isSuccess,
  parseJson,
  verificationUnknown,
  type ClassifiedError,
  type Response,
} from '../classify-error.ts';
import { outcomeOfSend } from '../outcome-of-send.ts';
import { headerText, mailAddress } from '../fields.ts';
import { hiddenInMail } from '../mail-content.ts';
import { hasAsciiLocalPart } from '../mailbox.ts';
import { defineProvider, type Verification } from '../provider.ts';
import { SES_SENDING_PAUSED } from '../ses-paused.ts';
import { awsSecrets, awsSettings, configurationSet, secretsToRedact, topicArn } from './account.ts';
import { judgeAwsError, verificationOfAwsRefusal } from './api-error.ts';
import { callAws } from './call.ts';
import { sesHeaders, sesMail } from './ses-mail.ts';
import {
  ADDRESS_REFUSED,
  SENDING_PAUSED,
  SES_CODES,
  UNSUPPORTED_ADDRESSES,
  UNVERIFIED_IDENTITY,
} from './ses-outcomes.ts';
import { sesReceipts } from './ses-receipts.ts';
import { sesGuide } from './guide.ts';

const config = z.object({
  ...awsSettings,
  from: mailAddress('Default sender address, verified with SES; used with `fromName`.').optional(),
  fromName: headerText('Sender name used with `from` when the message gives none.').optional(),
  configurationSetName: configurationSet.describe(
    'Configuration set whose event destination reports on the mails. How long SES tries to deliver one is its setting too.',
  ),
  topicArn: topicArn('the events of the configuration set'),
});

type Account = { readonly config: z.output<typeof config>; readonly secrets: z.output<typeof awsSecrets> };

const Accepted = z
  .looseObject({ MessageId: z.string().min(1) })
  .transform(({ MessageId }) => ({ providerMessageId: MessageId }));
const AccountBody = z.looseObject({
  SendingEnabled: z.boolean(),
  EnforcementStatus: z.string().optional().catch(undefined),
});

const NAME = 'Amazon SES';
/** https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_Message.html */
const HEADERS_MAX = 15;
/** Name and value of one header, https://docs.aws.amazon.com/ses/latest/APIReference-V2/API_MessageHeader.html */
const HEADER_CHARACTERS_MAX = 996;
const SES = { endpoint: 'email', service: 'ses' } as const;

export const ses = defineProvider({
  id: 'ses',
  channel: 'email',
  name: NAME,
  dedupe: 'none',
  receipts: sesReceipts,
  bodyCharactersMax: null,
  guide: sesGuide,
  config,
  secrets: awsSecrets,
  secretRoute: {
    region: true,
    accessKeyId: true,
    from: false,
    fromName: false,
    configurationSetName: false,
    topicArn: false,
  },

  async send(message, credentials, context): Promise<Outcome> {
    const unsupported = unsupportedAddress(message) ?? unsupportedHeader(message);
    if (unsupported !== undefined) return { kind: 'rejected_permanent', failure: unsupported };
    const call = {
      ...SES,
      method: 'POST',
      path: '/v2/email/outbound-emails',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(sesMail(message, credentials.config)),
    } as const;
    const result = await callAws(call, credentials, context);
    return outcomeOfSend(result, {
      judge: judgeSend,
      hidden: secretsToRedact(credentials, ...hiddenInMail(message)),
      now: context.epochMs(),
      accepted: ({ text }) => Accepted.safeParse(parseJson(text)).data,
    });
  },

  async verify(credentials, context): Promise<Verification> {
    const call = { ...SES, method: 'GET', path: '/v2/email/account', headers: {} } as const;
    const result = await callAws(call, credentials, context);
    if (result.kind !== 'response') return verificationUnknown(result);
    if (isSuccess(result)) return verdictOfAccount(result, credentials);
    return verificationOfAwsRefusal(result, judgeAwsError(result, SES_CODES), secretsToRedact(credentials));
  },
});

/** Returns why SES can never take the mail's addresses: its own refusal would not say which of them is meant. */
function unsupportedAddress({ to, content: { from, replyTo } }: OutboundFor<'email'>): Failure | undefined {
  const faults = [
    [from.address, UNSUPPORTED_ADDRESSES.from],
    [replyTo?.address ?? '', UNSUPPORTED_ADDRESSES.replyTo],
    [to, UNSUPPORTED_ADDRESSES.to],
  ] as const;
  const fault = faults.find(([address]) => !hasAsciiLocalPart(address))?.[1];
  return fault === undefined ? undefined : { class: fault.class, code: fault.code };
}

/**
 * Returns why SES does not take the mail's headers: there are more of them, or longer ones, than it allows. It would refuse them as
 * an invalid parameter, like any other fault of a request.
 */
function unsupportedHeader({ content }: OutboundFor<'email'>): Failure | undefined {
  const headers = sesHeaders(content);
  if (headers.length > HEADERS_MAX) {
    const providerMessage = `${NAME} takes at most ${HEADERS_MAX} headers`;
    return { class: 'content_rejected', code: 'too_many_headers', providerMessage };
  }
  if (headers.every(({ Name, Value }) => Name.length + Value.length <= HEADER_CHARACTERS_MAX))
    return undefined;
  const providerMessage = `${NAME} takes at most ${HEADER_CHARACTERS_MAX} characters in a header, its name included`;
  return { class: 'content_rejected', code: 'header_too_long', providerMessage };
}

function verdictOfAccount(response: Response, credentials: Account): Verification {
  const body = AccountBody.safeParse(parseJson(response.text)).data;
  if (body === undefined) return verificationUnknown(response);
  if (body.SendingEnabled && body.EnforcementStatus !== 'SHUTDOWN') return { kind: 'valid' };
  const vendorError = { providerCode: body.EnforcementStatus };
  const code = body.EnforcementStatus === 'SHUTDOWN' ? 'account_suspended' : 'sending_paused';
  return {
    kind: 'invalid',
    failure: failureOf(response, { meaning: accountFault(code), vendorError }, secretsToRedact(credentials)),
  };
}

/** Two codes cover several faults; only the error text tells them apart. */
function judgeSend(response: Response): ClassifiedError {
  const classified = judgeAwsError(response, SES_CODES);
  const { providerCode, providerMessage: text = '' } = classified.vendorError;
  if (providerCode === 'MessageRejected') {
    if (/not verified/i.test(text)) return { ...classified, meaning: UNVERIFIED_IDENTITY };
    if (SES_SENDING_PAUSED.test(text)) {
      return { ...classified, meaning: SENDING_PAUSED };
    }
  }
  const isAboutAddress =
    /illegal address|missing final '@domain'|local address contains|domain contains|invalid domain name/i;
  return providerCode === 'BadRequestException' && isAboutAddress.test(text)
    ? { ...classified, meaning: ADDRESS_REFUSED }
    : classified;
}
