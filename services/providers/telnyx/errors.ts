import { z } from 'zod';
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

/** "Invalid phone number" and "must be in +E.164 format", of whichever number of the request. */
const CODES_OF_ANY_NUMBER: ReadonlySet<string> = new Set(['10002', '10016']);
const MEANING_OF_FIELD: Readonly<Record<string, ErrorMeaning>> = {
  '/from': permanent('sender_rejected', 'invalid_sender'),
  '/to': permanent('invalid_recipient', 'invalid_number'),
};

/** Classifies a refused message. Only the field that the answer points to tells an invalid sender from an invalid recipient. */
export function classifyRefusal(response: Response): ClassifiedError {
  const classified = classify(response, TELNYX_CODES, readError);
  if (!CODES_OF_ANY_NUMBER.has(classified.vendorError.providerCode ?? '')) return classified;
  const pointer = ErrorBody.safeParse(parseJson(response.text)).data?.errors[0]?.source?.pointer ?? '';
  const field = Object.keys(MEANING_OF_FIELD).find(
    (name) => pointer === name || pointer.startsWith(`${name}/`),
  );
  const meaning = field === undefined ? undefined : MEANING_OF_FIELD[field];
  return meaning === undefined ? classified : { ...classified, meaning };
}
