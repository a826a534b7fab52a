import { z } from 'zod';
import type { Failure } from '#core/domain/sending/failure.ts';
import {
  accountFault,
  classify,
  isPage,
  parseJson,
  permanent,
  transient,
  type ClassifiedError,
  type ErrorMeaning,
  type Response,
  type VendorError,
} from '../classify-error.ts';
import { redact } from '../redact.ts';
import { PROVIDER_CODE_MAX, vendorText } from '../vendor-text.ts';

/** The failure classes that a gateway may report, each with its default meaning. */
const MEANINGS = {
  invalid_recipient: permanent('invalid_recipient', 'invalid_recipient'),
  recipient_unavailable: permanent('recipient_unavailable', 'recipient_unavailable'),
  content_rejected: permanent('content_rejected', 'content_rejected'),
  sender_rejected: permanent('sender_rejected', 'sender_rejected'),
  auth_or_config: accountFault('account_refused'),
  provider_throttled: transient('provider_throttled', 'rate_limited'),
  provider_unavailable: transient('provider_unavailable', 'provider_error'),
  unknown: permanent('unknown', 'refused'),
} as const satisfies Record<string, ErrorMeaning>;

const CLASSES = Object.keys(MEANINGS) as (keyof typeof MEANINGS)[];
const Text = z.string().optional().catch(undefined);

/** `{class, code, message, temporary}`, in a refusal and in a receipt. */
export const Reported = z.looseObject({
  class: z.enum(CLASSES).optional().catch(undefined),
  code: Text,
  message: Text,
  temporary: z.boolean().optional().catch(undefined),
});
type Reported = z.output<typeof Reported>;

const ErrorBody = z.looseObject({ error: Reported });

/** Statuses of a URL without a gateway: the message is not at fault. */
const NO_GATEWAY: readonly number[] = [404, 405, 410];

/** Classifies a refusal by the gateway's own description, or else by its status. */
export function judgeRefusal(response: Response): ClassifiedError {
  const classified = classify(response, {}, read);
  const reported = ErrorBody.safeParse(parseJson(response.text)).data?.error;
  const meaning = reported === undefined ? undefined : meaningOf(reported);
  // A 401 is about the signature, whatever its body says.
  if (meaning !== undefined && response.status !== 401) return { ...classified, meaning };
  const isNowhere = NO_GATEWAY.includes(response.status) && !isPage(response);
  return isNowhere ? { ...classified, meaning: accountFault('gateway_not_found') } : classified;
}

/** Returns the failure that a receipt reports for an undelivered message. */
export function reportedFailure(reported: Reported | undefined): Failure {
  const { code, message } = reported ?? {};
  const meaning = reported === undefined ? undefined : meaningOf(reported);
  return {
    class: meaning?.class ?? 'unknown',
    code: meaning?.code ?? 'undelivered',
    ...(code === undefined ? {} : { providerCode: vendorText(redact(code, []), PROVIDER_CODE_MAX) }),
    ...(message === undefined ? {} : { providerMessage: redact(message, []) }),
  };
}

function meaningOf({ class: failureClass, code, temporary }: Reported): ErrorMeaning | undefined {
  if (failureClass === undefined) return undefined;
  const usual = MEANINGS[failureClass];
  // Codes in our own format are kept: clients branch on some of them, such as `recipient_opted_out`.
  const isOurs = code !== undefined && /^[a-z][a-z0-9_]{0,63}$/.test(code);
  const retry = failureClass === 'auth_or_config' || (temporary ?? usual.retry);
  return { class: failureClass, code: isOurs ? code : usual.code, retry };
}

function read(body: unknown): VendorError {
  const error = ErrorBody.safeParse(body).data?.error;
  return { providerCode: error?.code, providerMessage: error?.message };
}
