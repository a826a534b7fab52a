import { z } from 'zod';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import {
  classify,
  isSuccess,
  parseJson,
  verificationOfRefusal,
  verificationUnknown,
  type ClassifiedError,
  type Response,
  type VendorError,
} from '../classify-error.ts';
import { outcomeOfRefusal, outcomeOfUnreadable, outcomeWithoutResponse } from '../outcome-of-send.ts';
import { hiddenInMail } from '../mail-content.ts';
import { hasAsciiLocalPart, UNSUPPORTED_RECIPIENT } from '../mailbox.ts';
import { defineProvider, type Verification } from '../provider.ts';
import { secretStrings } from '../redact.ts';
import { config, secrets, type Account } from './account.ts';
import { FAULTY_FIELDS, POSTMARK_CODES } from './outcomes.ts';
import { postmarkMail } from './payload.ts';
import { postmarkReceipts } from './receipts.ts';
import { postmarkGuide } from './guide.ts';

const ORIGIN = 'https://api.postmarkapp.com';

const Answer = z.looseObject({
  ErrorCode: z.number(),
  MessageID: z.string().min(1).optional().catch(undefined),
});
const ErrorBody = z.looseObject({
  ErrorCode: z.union([z.number(), z.string()]).optional().catch(undefined),
  Message: z.string().optional().catch(undefined),
});
const ServerBody = z.looseObject({ ID: z.number() });

export default defineProvider({
  id: 'postmark',
  channel: 'email',
  name: 'Postmark',
  dedupe: 'none',
  receipts: postmarkReceipts,
  bodyCharactersMax: null,
  guide: postmarkGuide,
  config,
  secrets,
  secretRoute: { from: false, fromName: false, replyTo: false, messageStream: false },

  async send(message, credentials, context): Promise<Outcome> {
    if (!hasAsciiLocalPart(message.to)) {
      return { kind: 'rejected_permanent', failure: UNSUPPORTED_RECIPIENT };
    }
    const result = await context.http({
      method: 'POST',
      url: `${context.origin(ORIGIN)}/email`,
      headers: { ...authorization(credentials), 'content-type': 'application/json' },
      body: JSON.stringify(postmarkMail(message, credentials.config)),
    });
    if (result.kind !== 'response') return outcomeWithoutResponse(result);
    const hidden = [...secretStrings(credentials.secrets), ...hiddenInMail(message)];
    if (!isSuccess(result)) return outcomeOfRefusal(result, judge(result), hidden, context.epochMs());
    const answer = Answer.safeParse(parseJson(result.text)).data;
    if (answer === undefined) return outcomeOfUnreadable(result);
    // A code other than 0 is a refusal, whatever the HTTP status.
    if (answer.ErrorCode !== 0) return outcomeOfRefusal(result, judge(result), hidden, context.epochMs());
    if (answer.MessageID === undefined) return outcomeOfUnreadable(result);
    return { kind: 'accepted', providerMessageId: answer.MessageID, httpStatus: result.status };
  },

  async verify(credentials, context): Promise<Verification> {
    const result = await context.http({
      method: 'GET',
      url: `${context.origin(ORIGIN)}/server`,
      headers: authorization(credentials),
    });
    if (result.kind !== 'response') return verificationUnknown(result);
    if (!isSuccess(result))
      return verificationOfRefusal(result, judge(result), secretStrings(credentials.secrets));
    return ServerBody.safeParse(parseJson(result.text)).success
      ? { kind: 'valid' }
      : verificationUnknown(result);
  },
});

function authorization({ secrets }: Account): Record<string, string> {
  return { 'x-postmark-server-token': secrets.serverToken, accept: 'application/json' };
}

function judge(response: Response): ClassifiedError {
  const classified = classify(response, POSTMARK_CODES, read);
  const { providerCode, providerMessage = '' } = classified.vendorError;
  if (providerCode !== '300' || classified.meaning !== POSTMARK_CODES[providerCode]) return classified;
  const meaning = FAULTY_FIELDS.find(({ pattern }) => pattern.test(providerMessage))?.meaning;
  return meaning === undefined ? classified : { ...classified, meaning };
}

function read(body: unknown): VendorError {
  const { ErrorCode, Message } = ErrorBody.safeParse(body).data ?? {};
  return { providerCode: ErrorCode === undefined ? undefined : String(ErrorCode), providerMessage: Message };
}
