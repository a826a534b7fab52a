import { z } from 'zod';
import type { OutboundFor } from '#core/domain/message/content.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import {
  classify,
  isSuccess,
  parseJson,
  verificationOfRefusal,
  verificationUnknown,
  type ClassifiedError,
  type Response,
} from '../classify-error.ts';
import { outcomeOfSend } from '../outcome-of-send.ts';
import { defineProvider, type Verification } from '../provider.ts';
import { secretStrings } from '../redact.ts';
import { withoutPlus } from '../without-plus.ts';
import { config, headersOf, ORIGIN, secrets } from './account.ts';
import { firstError, readError } from './errors.ts';
import { messagebirdLookup } from './lookup.ts';
import {
  MESSAGEBIRD_ERRORS,
  MESSAGEBIRD_PARAMETERS,
  TEST_PERIOD_TEXT,
  TRIAL_RESTRICTION,
} from './outcomes.ts';
import { messagebirdReceipts } from './receipts.ts';
import { messagebirdGuide } from './guide.ts';

/** The longest time that MessageBird tries to deliver; also its default without a validity. */
const VALIDITY_S_MAX = 2 * 86_400;

const Created = z.looseObject({ id: z.string().min(1) });
const BalanceBody = z.looseObject({ payment: z.string(), type: z.string() });

export default defineProvider({
  id: 'messagebird',
  channel: 'sms',
  name: 'MessageBird SMS',
  dedupe: 'none',
  receipts: messagebirdReceipts,
  lookup: messagebirdLookup,
  bodyCharactersMax: null,
  guide: messagebirdGuide,
  config,
  secrets,
  secretRoute: { originator: false },

  async send(message, account, context): Promise<Outcome> {
    const sender = message.from ?? account.config.originator;
    const result = await context.http({
      method: 'POST',
      url: `${context.origin(ORIGIN)}/messages`,
      headers: { ...headersOf(account), 'content-type': 'application/json' },
      body: JSON.stringify(payload(message, sender, context.epochMs())),
    });
    return outcomeOfSend(result, {
      judge: judgeSend,
      hidden: [...secretStrings(account.secrets), message.to, message.content.body, message.receiptUrl ?? ''],
      now: context.epochMs(),
      accepted: ({ text }) => {
        const created = Created.safeParse(parseJson(text)).data;
        return created && { providerMessageId: created.id, sender };
      },
    });
  },

  async verify(credentials, context): Promise<Verification> {
    const result = await context.http({
      method: 'GET',
      url: `${context.origin(ORIGIN)}/balance`,
      headers: headersOf(credentials),
    });
    if (result.kind !== 'response') return verificationUnknown(result);
    if (!isSuccess(result))
      return verificationOfRefusal(
        result,
        classify(result, MESSAGEBIRD_ERRORS, readError),
        secretStrings(credentials.secrets),
      );
    return BalanceBody.safeParse(parseJson(result.text)).success
      ? { kind: 'valid' }
      : verificationUnknown(result);
  },
});

/** MessageBird sends reports only for messages with a reference. */
function payload(
  { id, to, content, expiresAt, receiptUrl }: OutboundFor<'sms'>,
  sender: string,
  now: number,
) {
  const validity = Math.max(1, Math.floor((expiresAt - now) / 1_000));
  return {
    originator: withoutPlus(sender),
    recipients: [withoutPlus(to)],
    body: content.body,
    type: 'sms',
    // Otherwise MessageBird replaces characters outside the GSM alphabet with question marks.
    datacoding: 'auto',
    reference: id,
    ...(validity >= VALIDITY_S_MAX ? {} : { validity }),
    ...(receiptUrl === undefined ? {} : { reportUrl: receiptUrl }),
  };
}

/** For codes that report a faulty parameter, the parameter is named in a field of its own. */
function judgeSend(response: Response): ClassifiedError {
  const classified = classify(response, MESSAGEBIRD_ERRORS, readError);
  const parameter = firstError(parseJson(response.text))?.parameter ?? '';
  // A fault of the account: the recipient must not be suppressed for it.
  if (TEST_PERIOD_TEXT.test(classified.vendorError.providerMessage ?? ''))
    return { ...classified, meaning: TRIAL_RESTRICTION };
  const isFault = classified.meaning.code === 'invalid_request';
  const meaning = Object.hasOwn(MESSAGEBIRD_PARAMETERS, parameter)
    ? MESSAGEBIRD_PARAMETERS[parameter]
    : undefined;
  return isFault && meaning !== undefined ? { ...classified, meaning } : classified;
}
