import { z } from 'zod';
import type { OutboundFor } from '#core/domain/message/content.ts';
import type { Outcome } from '#core/domain/sending/outcome.ts';
import { forgetAccessToken, TokenRefused, tokenVerdict, withoutToken } from '../oauth.ts';
import { defineProvider, type HttpResult, type ProviderContext, type Verification } from '../provider.ts';
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
import { outcomeOfSend } from '../outcome-of-send.ts';
import { fcmToken } from './access-token.ts';
import { secretsToRedact, checkAccount, config, secrets, type Account } from './account.ts';
import { fcmMessage } from './message.ts';
import {
  DEVICE_LIMIT,
  FCM_CODES,
  INVALID_TOKEN,
  LIMIT_WAIT_MS,
  PUSH_CERTIFICATE_MISSING,
  THIRD_PARTY_AUTH_ERROR,
} from './outcomes.ts';
import { fcmGuide } from './guide.ts';

const Accepted = z
  .looseObject({ name: z.string().min(1) })
  .transform(({ name }) => ({ providerMessageId: name }));
const text = z.string().optional().catch(undefined);
const Detail = z.looseObject({
  errorCode: text,
  fieldViolations: z.array(z.looseObject({ field: z.string().catch('') })).catch([]),
  /** Of a `google.rpc.QuotaFailure`. */
  violations: z.array(z.looseObject({ subject: text, description: text })).catch([]),
});
const ErrorBody = z.looseObject({
  error: z.looseObject({
    status: text,
    message: text,
    details: z.array(Detail.catch({ fieldViolations: [], violations: [] })).catch([]),
  }),
});

export default defineProvider({
  id: 'fcm',
  channel: 'push',
  name: 'Firebase Cloud Messaging',
  dedupe: 'none',
  receipts: null,
  bodyCharactersMax: null,
  guide: fcmGuide,
  config,
  secrets,
  secretRoute: { projectId: true, clientEmail: true },
  check: checkAccount,

  async send(message, account, context): Promise<Outcome> {
    const called = await call(account, context, { message: fcmMessage(message, context.epochMs()) });
    if (called instanceof TokenRefused)
      return withoutToken(called, secretsToRedact(account), context.epochMs());
    return outcomeOfSend(called.result, {
      judge: judgeSend,
      hidden: secretsOfCall(account, called.token, message),
      now: context.epochMs(),
      accepted: ({ text }) => Accepted.safeParse(parseJson(text)).data,
    });
  },

  async verify(account, context): Promise<Verification> {
    // With a remembered token the check would not notice that the key was revoked.
    forgetAccessToken(context);
    const called = await call(account, context, {
      validate_only: true,
      message: { token: 'credential-check' },
    });
    if (called instanceof TokenRefused) return tokenVerdict(called, secretsToRedact(account));
    const { result } = called;
    if (result.kind !== 'response') return verificationUnknown(result);
    if (isSuccess(result))
      return Accepted.safeParse(parseJson(result.text)).success
        ? { kind: 'valid' }
        : verificationUnknown(result);
    const classified = judgeSend(result);
    // FCM checked the made-up device token, so the credential works.
    const isAboutMessage =
      classified.meaning.class === 'invalid_recipient' || classified.meaning.class === 'content_rejected';
    return isAboutMessage
      ? { kind: 'valid' }
      : verificationOfRefusal(result, classified, secretsOfCall(account, called.token));
  },
});

type Called = { readonly result: HttpResult; readonly token: string };

/**
 * Makes one call and retries it once with a new token if the token was refused early. FCM did nothing with the refused
 * call, so the retry cannot duplicate the message.
 */
async function call(
  account: Account,
  context: ProviderContext,
  body: object,
): Promise<Called | TokenRefused> {
  const first = await callOnce(account, context, body);
  const isRefused =
    !(first instanceof TokenRefused) && first.result.kind === 'response' && isTokenRefused(first.result);
  if (!isRefused) return first;
  forgetAccessToken(context);
  return callOnce(account, context, body);
}

async function callOnce(
  account: Account,
  context: ProviderContext,
  body: object,
): Promise<Called | TokenRefused> {
  try {
    const token = await fcmToken(account, context);
    const result = await context.http({
      method: 'POST',
      url: `${context.origin('https://fcm.googleapis.com')}/v1/projects/${account.config.projectId}/messages:send`,
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        accept: 'application/json',
      },
      body: JSON.stringify(body),
    });
    return { result, token };
  } catch (error) {
    if (error instanceof TokenRefused) return error;
    throw error;
  }
}

function isTokenRefused(response: Response): boolean {
  return response.status === 401 && read(parseJson(response.text)).providerCode !== THIRD_PARTY_AUTH_ERROR;
}

function judgeSend(response: Response): ClassifiedError {
  const classified = classify(response, FCM_CODES, read);
  const isOwnAnswer = classified.vendorError.providerCode !== undefined;
  if (classified.meaning.class === 'provider_throttled' && isOwnAnswer) {
    const limited = { ...classified, waitMs: LIMIT_WAIT_MS };
    return isLimitOfDevice(response, classified) ? { ...limited, meaning: DEVICE_LIMIT } : limited;
  }
  if (classified.vendorError.providerCode === THIRD_PARTY_AUTH_ERROR) {
    return { ...classified, meaning: PUSH_CERTIFICATE_MISSING };
  }
  return classified.vendorError.providerCode === 'INVALID_ARGUMENT' && isAboutToken(response)
    ? { ...classified, meaning: INVALID_TOKEN }
    : classified;
}

/** FCM reports this in a field violation or, without one, only in the error text. */
function isAboutToken(response: Response): boolean {
  const error = ErrorBody.safeParse(parseJson(response.text)).data?.error;
  const fields = error?.details.flatMap((detail) => detail.fieldViolations.map(({ field }) => field)) ?? [];
  return fields.length === 0
    ? /registration token/i.test(error?.message ?? '')
    : fields.includes('message.token');
}

/**
 * One code covers the limits of the project, of a topic and of a device; the violations, or else the text, name the one
 * (https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode).
 */
function isLimitOfDevice(response: Response, { vendorError }: ClassifiedError): boolean {
  if (vendorError.providerCode !== 'QUOTA_EXCEEDED') return false;
  const details = ErrorBody.safeParse(parseJson(response.text)).data?.error.details ?? [];
  const violations = details.flatMap((detail) => detail.violations);
  const texts = violations.flatMap(({ subject, description }) => [subject, description]);
  return [...texts, vendorError.providerMessage].some((one) => /\bdevice\b/i.test(one ?? ''));
}

function read(body: unknown): VendorError {
  const error = ErrorBody.safeParse(body).data?.error;
  const errorCode = error?.details.find((detail) => detail.errorCode !== undefined)?.errorCode;
  return { providerCode: errorCode ?? error?.status, providerMessage: error?.message };
}

function secretsOfCall(account: Account, token: string, message?: OutboundFor<'push'>): string[] {
  return [...secretsToRedact(account), token, ...(message === undefined ? [] : [message.to])];
}
