import { z } from 'zod';
import type { VendorError } from '../classify-error.ts';

const ErrorBody = z.looseObject({
  errors: z.array(
    z.looseObject({
      code: z.union([z.string(), z.number()]).optional().catch(undefined),
      title: z.string().optional().catch(undefined),
      detail: z.string().optional().catch(undefined),
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
