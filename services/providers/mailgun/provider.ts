import { z } from 'zod';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import { retryAfterMs } from '#core/domain/sending/retry-after.ts';
import {
  classify,
  failureOf,
  isSuccess,
  parseJson,
  verificationOfRefusal,
  verificationUnknown,
  type ClassifiedError,
  type Response,
} from '../classify-error.ts';
import { outcomeOfRefusal, outcomeOfUnreadable, outcomeWithoutResponse } from '../outcome-of-send.ts';
import { hiddenInMail } from '../mail-content.ts';
import { hasAsciiLocalPart } from '../mailbox.ts';
import { defineProvider, type HttpResult, type ProviderContext, type Verification } from '../provider.ts';
import { authorization, config, secretsToRedact, secrets, vendorOrigin, type Account } from './account.ts';
import { readError } from './errors.ts';
import { encodedForm, type FormField } from './form.ts';
import { mailgunLookup } from './lookup.ts';
import {
  DOMAIN_STATES,
  INVALID_ADDRESS,
  LIMIT_REACHED,
  OTHER_ENDPOINT,
  REFUSALS,
  UNKNOWN_DOMAIN,
  UNSUPPORTED_ADDRESS,
  UNSUPPORTED_SENDER,
} from './outcomes.ts';
import { mailgunForm } from './payload.ts';
import { mailgunReceipts, withoutBrackets } from './receipts.ts';
import { mailgunGuide } from './guide.ts';

const Accepted = z.looseObject({ id: z.string().min(1) });
const DomainBody = z.looseObject({ domain: z.looseObject({ state: z.string() }) });

export default defineProvider({
  id: 'mailgun',
  channel: 'email',
  name: 'Mailgun',
  dedupe: 'none',
  receipts: mailgunReceipts,
  lookup: mailgunLookup,
  bodyCharactersMax: null,
  guide: mailgunGuide,
  config,
  secrets,
  secretRoute: { domain: true, region: true, from: false, fromName: false, replyTo: false },

  async send(message, credentials, context): Promise<Outcome> {
    if (!hasAsciiLocalPart(message.content.from.address)) {
      const { class: group, code } = UNSUPPORTED_SENDER;
      return { kind: 'rejected_permanent', failure: { class: group, code } };
    }
    const form = mailgunForm(message, credentials.config, context.epochMs());
    const result = await post(form, credentials, context);
    if (result.kind !== 'response') return outcomeWithoutResponse(result);
    const hidden = [...secretsToRedact(credentials), ...hiddenInMail(message)];
    if (!isSuccess(result)) {
      const classified = judgeSend(result, message.to);
      const waitMs = limitedMs(classified.vendorError.providerMessage, context.epochMs());
      return outcomeOfRefusal(result, { ...classified, waitMs }, hidden, context.epochMs());
    }
    if (/^\s*mailgun magnificent api/i.test(result.text)) {
      return outcomeOfRefusal(
        result,
        { meaning: OTHER_ENDPOINT, vendorError: {} },
        hidden,
        context.epochMs(),
      );
    }
    const accepted = Accepted.safeParse(parseJson(result.text));
    if (!accepted.success) return outcomeOfUnreadable(result);
    return {
      kind: 'accepted',
      providerMessageId: withoutBrackets(accepted.data.id),
      httpStatus: result.status,
    };
  },

  async verify(credentials, context): Promise<Verification> {
    const result = await context.http({
      method: 'GET',
      url: `${context.origin(vendorOrigin(credentials))}/v4/domains/${credentials.config.domain}`,
      headers: authorization(credentials),
    });
    if (result.kind !== 'response') return verificationUnknown(result);
    if (isSuccess(result)) return verdictOfDomain(result, credentials);
    const classified = judge(result);
    const isForbidden = result.status === 401 || result.status === 403;
    return isForbidden && classified.meaning.class === 'auth_or_config'
      ? verifySending(credentials, context)
      : verificationOfRefusal(result, classified, secretsToRedact(credentials));
  },
});

function post(
  fields: readonly FormField[],
  credentials: Account,
  context: ProviderContext,
): Promise<HttpResult> {
  const { contentType, body } = encodedForm(fields);
  return context.http({
    method: 'POST',
    url: `${context.origin(vendorOrigin(credentials))}/v3/${credentials.config.domain}/messages`,
    headers: { ...authorization(credentials), 'content-type': contentType },
    body,
  });
}

/**
 * A sending key may not read its domain. A mail without sender and recipient is refused for those faults only if the key is
 * valid.
 */
async function verifySending(credentials: Account, context: ProviderContext): Promise<Verification> {
  const result = await post([['o:testmode', 'yes']], credentials, context);
  if (result.kind !== 'response') return verificationUnknown(result);
  const isAsked = result.status === 400 && readError(parseJson(result.text)).providerMessage !== undefined;
  return isAsked
    ? { kind: 'valid' }
    : verificationOfRefusal(result, judge(result), secretsToRedact(credentials));
}

function verdictOfDomain(response: Response, credentials: Account): Verification {
  const state = DomainBody.safeParse(parseJson(response.text)).data?.domain.state;
  if (state === undefined) return verificationUnknown(response);
  const meaning = Object.hasOwn(DOMAIN_STATES, state) ? DOMAIN_STATES[state] : undefined;
  if (meaning === undefined) return { kind: 'valid' };
  const classified = { meaning, vendorError: { providerCode: state } };
  return { kind: 'invalid', failure: failureOf(response, classified, secretsToRedact(credentials)) };
}

/** Returns how long a limit lasts: its text ends with the time from which the domain may send again. */
function limitedMs(text: string | undefined, now: number): number | undefined {
  const time = /limit exceeded, try again after (\w{3}, .{1,30})/i.exec(text ?? '')?.[1];
  return retryAfterMs(time, now);
}

/** An address that is not ASCII before the `@` may exist, although Mailgun does not take it. */
function judgeSend(response: Response, to: string): ClassifiedError {
  const classified = judge(response);
  const isUnsupported = classified.meaning.code === INVALID_ADDRESS && !hasAsciiLocalPart(to);
  return isUnsupported ? { ...classified, meaning: UNSUPPORTED_ADDRESS } : classified;
}

/** The text decides where the status is ambiguous: a 401 is about the key, a 404 about the domain. */
function judge(response: Response): ClassifiedError {
  const classified = classify(response, {}, readError);
  if (response.status === 420) return { ...classified, meaning: LIMIT_REACHED };
  const text = classified.vendorError.providerMessage;
  if (text === undefined) return classified;
  if (response.status === 404) return { ...classified, meaning: UNKNOWN_DOMAIN };
  if (response.status !== 400 && response.status !== 403) return classified;
  const meaning = REFUSALS.find(({ pattern }) => pattern.test(text))?.meaning;
  return meaning === undefined ? classified : { ...classified, meaning };
}
