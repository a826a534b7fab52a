import { z } from 'zod';
import { retryAfterMs } from '#core/domain/sending/retry-after.ts';
import {
  classify,
  parseJson,
  permanent,
  type ClassifiedError,
  type ErrorMeaning,
  type Response,
  type VendorError,
} from '../classify-error.ts';
import { TELNYX_CODES } from './outcomes.ts';

const ErrorBody = z.looseObject({
  errors: z.array(
    z.looseObject({
      code: z.union([z.string(), z.number()]).optional().catch(undefined),
      title: z.string().optional().catch(undefined),
      detail: z.string().optional().catch(undefined),
      // JSON:API: which field of the request is at fault, such as `/from`.
      source: z.looseObject({ pointer: z.string() }).optional().catch(undefined),
    }),
  ),
});

export function readError(body: unknown): VendorError {
  const first = ErrorBody.safeParse(body).data?.errors[0];
  return {
    providerCode: first?.code === undefined ? undefined : String(first.code),
    providerMessage: first?.detail ?? first?.title,
  };
}

/** The codes about whichever number of the request, and what they mean for the sender's and for the recipient's. */
const BY_FIELD: Readonly<Record<string, Readonly<Record<string, ErrorMeaning>>>> = {
  '/from': {
    10001: permanent('sender_rejected', 'inactive_number'),
    10002: permanent('sender_rejected', 'invalid_sender'),
    10016: permanent('sender_rejected', 'invalid_sender'),
  },
  '/to': {
    10001: permanent('invalid_recipient', 'inactive_number'),
    10002: permanent('invalid_recipient', 'invalid_number'),
    10016: permanent('invalid_recipient', 'invalid_number'),
  },
};

/**
 * Classifies a refused message. Only the field that the answer points to tells an invalid sender from an invalid recipient.
 * @param now milliseconds since the epoch.
 */
export function classifyRefusal(response: Response, now: number): ClassifiedError {
  const classified = { ...classify(response, TELNYX_CODES, readError), waitMs: resetMs(response, now) };
  const pointer = ErrorBody.safeParse(parseJson(response.text)).data?.errors[0]?.source?.pointer ?? '';
  const field = Object.keys(BY_FIELD).find((name) => pointer === name || pointer.startsWith(`${name}/`));
  const code = classified.vendorError.providerCode ?? '';
  const meanings = field === undefined ? undefined : BY_FIELD[field];
  const meaning = meanings !== undefined && Object.hasOwn(meanings, code) ? meanings[code] : undefined;
  return meaning === undefined ? classified : { ...classified, meaning };
}

/**
 * Returns the wait that a 429 asks for: `x-ratelimit-reset` has the seconds until the limit starts anew,
 * https://developers.telnyx.com/development/api-fundamentals/reliability/rate-limiting.
 */
function resetMs({ status, headers }: Response, now: number): number | undefined {
  return status === 429 ? retryAfterMs(headers['x-ratelimit-reset'], now) : undefined;
}
