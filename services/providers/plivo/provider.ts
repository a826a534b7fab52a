import { z } from 'zod';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import {
  classify,
  isSuccess,
  parseJson,
  verificationOfRefusal,
  verificationUnknown,
  type ClassifiedError,
  type CodeTable,
  type ErrorMeaning,
  type Response,
} from '../classify-error.ts';
import { outcomeOfRefusal, outcomeOfUnreadable, outcomeWithoutResponse } from '../outcome-of-send.ts';
import { checkDlt, dltRoute } from '../india-dlt.ts';
import { defineProvider, type Verification } from '../provider.ts';
import { withoutPlus } from '../without-plus.ts';
import { config, headersOf, secretsToRedact, resourceOf, secrets } from './account.ts';
import { readError } from './errors.ts';
import { plivoLookup } from './lookup.ts';
import {
  BODY_TOO_LONG,
  INVALID_NUMBER,
  INVALID_SENDER,
  PLIVO_PARAMETERS,
  REGION_NOT_PERMITTED,
} from './outcomes.ts';
import { BODY_CHARACTERS_MAX, isTooLong, payloadOf, senderOf } from './payload.ts';
import { plivoReceipts } from './receipts.ts';
import { plivoGuide } from './guide.ts';

/** One id per recipient, and the recipients that were refused. */
const Accepted = z.looseObject({
  message_uuid: z.array(z.string().min(1)),
  invalid_number: z.array(z.string()).optional().catch(undefined),
});
const AccountBody = z.looseObject({ auth_id: z.string().min(1) });

export default defineProvider({
  id: 'plivo',
  channel: 'sms',
  name: 'Plivo',
  dedupe: 'none',
  receipts: plivoReceipts,
  lookup: plivoLookup,
  bodyCharactersMax: BODY_CHARACTERS_MAX,
  guide: plivoGuide,
  config,
  secrets,
  secretRoute: { authId: true, from: false, powerpackUuid: false, ...dltRoute },
  checkConfig: checkDlt,

  async send(message, account, context): Promise<Outcome> {
    if (isTooLong(message.content.body)) return refusedFor(BODY_TOO_LONG);
    const sender = senderOf(message.from, account.config);
    const result = await context.http({
      method: 'POST',
      url: `${resourceOf(account, context.origin)}Message/`,
      headers: { ...headersOf(account), 'content-type': 'application/json' },
      body: JSON.stringify(payloadOf(message, sender, account.config, context.epochMs())),
    });
    if (result.kind !== 'response') return outcomeWithoutResponse(result);
    const hidden = [...secretsToRedact(account), message.to, message.content.body, message.receiptUrl ?? ''];
    if (!isSuccess(result))
      return outcomeOfRefusal(result, judgeSend(result, message.to), hidden, context.epochMs());
    const accepted = Accepted.safeParse(parseJson(result.text)).data;
    if (accepted?.invalid_number?.map(withoutPlus).includes(withoutPlus(message.to)) === true)
      return refusedFor(INVALID_NUMBER, result.status);
    const [providerMessageId] = accepted?.message_uuid ?? [];
    if (providerMessageId === undefined) return outcomeOfUnreadable(result);
    const [used] = Object.values(sender);
    return {
      kind: 'accepted',
      providerMessageId,
      httpStatus: result.status,
      ...(used === undefined ? {} : { sender: used }),
    };
  },

  async verify(credentials, context): Promise<Verification> {
    const result = await context.http({
      method: 'GET',
      url: resourceOf(credentials, context.origin),
      headers: headersOf(credentials),
    });
    if (result.kind !== 'response') return verificationUnknown(result);
    if (!isSuccess(result))
      return verificationOfRefusal(result, judge(result, {}), secretsToRedact(credentials));
    return AccountBody.safeParse(parseJson(result.text)).success
      ? { kind: 'valid' }
      : verificationUnknown(result);
  },
});

/** A country that the account may not send to is the message's fault; any other 403 is the account's. */
const NAMES_REGION = /countr|region|geo|destination|\bdst\b|not enabled/i;

/** Plivo refuses a wrong credential with plain text labelled as HTML; this is the API's answer, not a proxy's page. */
function judge(response: Response, table: CodeTable): ClassifiedError {
  const isLine = response.status === 401 && !/^\s*</.test(response.text);
  return classify(isLine ? { ...response, headers: {} } : response, table, readError);
}

function judgeSend(response: Response, to: string): ClassifiedError {
  const classified = judge(response, response.status === 400 ? PLIVO_PARAMETERS : {});
  const text = classified.vendorError.providerMessage ?? '';
  const { code } = classified.meaning;
  if (code === 'forbidden' && NAMES_REGION.test(text))
    return { ...classified, meaning: REGION_NOT_PERMITTED };
  const meaning = code === 'http_400' ? meaningOfText(text, to) : undefined;
  return meaning === undefined ? classified : { ...classified, meaning };
}

/**
 * These texts name no parameter (Plivo, Destination Number Validation; Plivo Support, Country-wise restrictions and
 * features). The number may be the sender's.
 */
function meaningOfText(text: string, to: string): ErrorMeaning | undefined {
  if (/is not a valid phone number/i.test(text) && text.includes(withoutPlus(to))) return INVALID_NUMBER;
  return /caller ?id is not allowed/i.test(text) ? INVALID_SENDER : undefined;
}

function refusedFor(meaning: ErrorMeaning, httpStatus?: number): Outcome {
  const status = httpStatus === undefined ? {} : { httpStatus };
  return { kind: 'rejected_permanent', failure: { class: meaning.class, code: meaning.code, ...status } };
}
