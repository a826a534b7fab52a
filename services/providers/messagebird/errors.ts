import { z } from 'zod';
import type { VendorError } from '../classify-error.ts';

const ErrorBody = z.looseObject({
  errors: z.array(
    z.looseObject({
      code: z.union([z.number(), z.string()]).optional().catch(undefined),
      description: z.string().optional().catch(undefined),
      parameter: z.string().optional().catch(undefined),
    }),
  ),
});

export function readError(body: unknown): VendorError {
  const { code, description } = firstError(body) ?? {};
  return { providerCode: code === undefined ? undefined : String(code), providerMessage: description };
}

export function firstError(body: unknown): z.output<typeof ErrorBody>['errors'][number] | undefined {
  return ErrorBody.safeParse(body).data?.errors[0];
}
