import { z } from 'zod';
import { DAY_MS } from '#core/domain/text/duration.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import {
  accountFault,
  classify,
  failureOf,
  isSuccess,
  parseJson,
  permanent,
  verificationOfRefusal,
  verificationUnknown,
  type ClassifiedError,
  type Response,
} from '../classify-error.ts';
import { outcomeOfRefusal, outcomeOfUnreadable, outcomeWithoutResponse } from '../outcome-of-send.ts';
import { hiddenInMail } from '../mail-content.ts';
import { hasAsciiLocalPart, UNSUPPORTED_RECIPIENT } from '../mailbox.ts';
import { defineProvider, type Verification } from '../provider.ts';
import { secretStrings } from '../redact.ts';
import { authorization, config, ORIGIN, secrets } from './account.ts';
import { readError } from './errors.ts';
import { resendLookup } from './lookup.ts';
import {
  FAULTY_FIELDS,
  INVALID_KEY,
  RESEND_ERRORS,
  TRIAL_RESTRICTION,
  UNVERIFIED_SENDER,
} from './outcomes.ts';
import { resendMail } from './payload.ts';
import { resendReceipts } from './receipts.ts';
import { resendGuide } from './guide.ts';

const Accepted = z.looseObject({ id: z.string().min(1) });
const DomainsBody = z.looseObject({ data: z.array(z.unknown()) });

export default defineProvider({
  id: 'resend',
  channel: 'email',
  name: 'Resend',
  dedupe: 'key',
  keyLifetimeMs: DAY_MS,
  receipts: resendReceipts,
  lookup: resendLookup,
  bodyCharactersMax: null,
  guide: resendGuide,
  config,
  secrets,
  secretRoute: { from: false, fromName: false, replyTo: false },

  async send(message, credentials, context): Promise<Outcome> {
    if (!hasAsciiLocalPart(message.to)) {
      return { kind: 'rejected_permanent', failure: UNSUPPORTED_RECIPIENT };
    }
    const result = await context.http({
      method: 'POST',
      url: `${context.origin(ORIGIN)}/emails`,
      headers: {
        ...authorization(credentials),
        'content-type': 'application/json',
        'idempotency-key': message.id,
      },
      body: resendMail(message, credentials.config),
    });
    if (result.kind !== 'response') return outcomeWithoutResponse(result);
    const hidden = [...secretStrings(credentials.secrets), ...hiddenInMail(message)];
    if (!isSuccess(result)) {
      const classified = judge(result);
      return isOtherPayload(classified)
        ? { kind: 'ambiguous', failure: failureOf(result, classified, hidden) }
        : outcomeOfRefusal(result, classified, hidden, context.epochMs());
    }
    const accepted = Accepted.safeParse(parseJson(result.text));
    if (!accepted.success) return outcomeOfUnreadable(result);
    return { kind: 'accepted', providerMessageId: accepted.data.id, httpStatus: result.status };
  },

  async verify(credentials, context): Promise<Verification> {
    const result = await context.http({
      method: 'GET',
      url: `${context.origin(ORIGIN)}/domains`,
      headers: authorization(credentials),
    });
    if (result.kind !== 'response') return verificationUnknown(result);
    if (isSuccess(result)) {
      return DomainsBody.safeParse(parseJson(result.text)).success
        ? { kind: 'valid' }
        : verificationUnknown(result);
    }
    const classified = judge(result);
    // The key is valid and may only send. A 403 with the same name is about a key that is not active.
    if (result.status === 401 && classified.vendorError.providerCode === 'restricted_api_key') {
      return { kind: 'valid' };
    }
    return verificationOfRefusal(result, classified, secretStrings(credentials.secrets));
  },
});

/**
 * An earlier attempt used the idempotency key with a different body, because the account's settings changed since. The
 * earlier mail may have been accepted and this one was not, so the outcome is unknown until a receipt arrives.
 */
function isOtherPayload({ vendorError }: ClassifiedError): boolean {
  return vendorError.providerCode === 'invalid_idempotent_request';
}

function judge(response: Response): ClassifiedError {
  const classified = classify(response, RESEND_ERRORS, readError);
  const { providerCode, providerMessage = '' } = classified.vendorError;
  if (isOtherPayload(classified)) {
    return { ...classified, meaning: permanent('unknown', 'idempotency_conflict') };
  }
  if (providerCode !== 'validation_error') return classified;
  if (INVALID_KEY.test(providerMessage))
    return { ...classified, meaning: accountFault('authentication_failed') };
  if (response.status === 403) {
    const isTrial = /only send testing emails/i.test(providerMessage);
    return { ...classified, meaning: isTrial ? TRIAL_RESTRICTION : UNVERIFIED_SENDER };
  }
  if (response.status !== 400 && response.status !== 422) return classified;
  const meaning = FAULTY_FIELDS.find(({ pattern }) => pattern.test(providerMessage))?.meaning;
  return meaning === undefined ? classified : { ...classified, meaning };
}
