import { z } from 'zod';
import type { OutboundFor } from '#core/domain/message/content.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import { smsSegments } from '#core/domain/message/segments.ts';
import { classify, isSuccess, parseJson, permanent } from '../classify-error.ts';
import { outcomeOfRefusal, outcomeOfUnreadable, outcomeWithoutResponse } from '../outcome-of-send.ts';
import { dltFields } from '../india-dlt.ts';
import type { ProviderContext } from '../provider.ts';
import { withoutPlus } from '../without-plus.ts';
import { secretsToRedact, basicAuthorization, REST_ORIGIN, type Account } from './account.ts';
import { SMS_CODES } from './outcomes.ts';

const TTL_MS_MIN = 20_000;
const TTL_MS_MAX = 604_800_000;

const Part = z.looseObject({
  status: z.union([z.string(), z.number()]).transform(String),
  'message-id': z.string().min(1).optional().catch(undefined),
  'error-text': z.string().optional().catch(undefined),
});
const Answer = z.looseObject({ messages: z.array(Part).min(1) });
type Part = z.output<typeof Part>;

/** https://developer.vonage.com/en/api/sms. Each part of a long text has its own id and receipt. */
export async function sendBySms(
  message: OutboundFor<'sms'>,
  account: Account,
  context: ProviderContext,
): Promise<Outcome> {
  const { id, to, from, content, receiptUrl, expiresAt } = message;
  const ttl = Math.min(Math.max(expiresAt - context.epochMs(), TTL_MS_MIN), TTL_MS_MAX);
  const result = await context.http({
    method: 'POST',
    url: `${context.origin(REST_ORIGIN)}/sms/json`,
    headers: {
      authorization: basicAuthorization(account),
      'content-type': 'application/json',
      accept: 'application/json',
    },
    body: JSON.stringify({
      from: withoutPlus(from ?? account.config.from),
      to: withoutPlus(to),
      text: content.body,
      type: smsSegments(content.body).encoding === 'GSM-7' ? 'text' : 'unicode',
      ttl,
      'client-ref': id,
      ...dltFields(to, account.config, { entity: 'entity-id', template: 'content-id' }),
      ...(receiptUrl === undefined ? {} : { callback: receiptUrl, 'status-report-req': true }),
    }),
  });
  if (result.kind !== 'response') return outcomeWithoutResponse(result);
  const hidden = [...secretsToRedact(account), to, content.body, receiptUrl ?? ''];
  const read = (body: unknown) => vendorErrorOf(Answer.safeParse(body).data?.messages[0]);
  if (!isSuccess(result))
    return outcomeOfRefusal(result, classify(result, SMS_CODES, read), hidden, context.epochMs());
  const parts = Answer.safeParse(parseJson(result.text)).data?.messages;
  const [first] = parts ?? [];
  if (parts === undefined || first === undefined) return outcomeOfUnreadable(result);
  // If one part was sent, a retry would send it again.
  const accepted = parts.find(({ status }) => status === '0');
  if (accepted === undefined) {
    const meaning = SMS_CODES[first.status] ?? permanent('unknown', 'rejected');
    return outcomeOfRefusal(
      result,
      { meaning, vendorError: vendorErrorOf(first) },
      hidden,
      context.epochMs(),
    );
  }
  return {
    kind: 'accepted',
    providerMessageId: accepted['message-id'] ?? null,
    httpStatus: result.status,
    ...(from === undefined ? { sender: account.config.from } : {}),
  };
}

function vendorErrorOf(part: Part | undefined) {
  return { providerCode: part?.status, providerMessage: part?.['error-text'] };
}
