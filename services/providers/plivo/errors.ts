import { z } from 'zod';
import type { VendorError } from '../classify-error.ts';

const ErrorBody = z.looseObject({ error: z.string().optional().catch(undefined) });

/** Plivo has no error codes; if the text names exactly one known parameter, the parameter serves as the code. */
export function readError(body: unknown): VendorError {
  const text = ErrorBody.safeParse(body).data?.error;
  const named = new Set(text?.match(/\b(?:dst|src|powerpack_uuid|text)\b/g));
  return { providerCode: named.size === 1 ? [...named][0] : undefined, providerMessage: text };
}
