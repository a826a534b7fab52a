import { z } from 'zod';
import type { VendorError } from '../classify-error.ts';

const ErrorBody = z.looseObject({
  code: z.union([z.string(), z.number()]).optional().catch(undefined),
  text: z.string().optional().catch(undefined),
});

export function readError(body: unknown): VendorError {
  const { code, text } = ErrorBody.safeParse(body).data ?? {};
  return { providerCode: code === undefined ? undefined : String(code), providerMessage: text };
}
