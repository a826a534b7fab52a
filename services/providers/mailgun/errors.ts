import { z } from 'zod';
import type { VendorError } from '../classify-error.ts';

const ErrorBody = z.looseObject({ message: z.string() });

/** Mailgun's errors have a text and no code. */
export function readError(body: unknown): VendorError {
  return { providerMessage: ErrorBody.safeParse(body).data?.message };
}
