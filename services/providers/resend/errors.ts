import { z } from 'zod';
import type { VendorError } from '../classify-error.ts';

const ErrorBody = z.looseObject({
  name: z.string().optional().catch(undefined),
  message: z.string().optional().catch(undefined),
});

export function readError(body: unknown): VendorError {
  const { name, message } = ErrorBody.safeParse(body).data ?? {};
  return { providerCode: name, providerMessage: message };
}
