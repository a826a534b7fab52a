import { z } from 'zod';
import type { VendorError } from '../classify-error.ts';

const ErrorBody = z.looseObject({ error: z.string().optional().catch(undefined) });

/** There is no code; a parameter that the text names stands for one, if it is the only one. */
export function readError(body: unknown): VendorError {
  const text = ErrorBody.safeParse(body).data?.error;
  const named = new Set(text?.match(/\b(?:dst|src|powerpack_uuid|text)\b/g));
  return { providerCode: named.size === 1 ? [...named][0] : undefined, providerMessage: text };
}
