import { createPrivateKey } from 'node:crypto';
import { z } from 'zod';
import { secretStrings } from '../redact.ts';

const TEN = /^[A-Z0-9]{10}$/;
const TEN_RULE = 'Must be 10 upper-case letters and digits';

export const config = z.object({
  teamId: z
    .string()
    .regex(TEN, TEN_RULE)
    .describe('Team id of the developer account: 10 letters and digits.'),
  keyId: z
    .string()
    .regex(TEN, TEN_RULE)
    .describe('Id of the signing key, as in the name of its file AuthKey_<id>.p8: 10 letters and digits.'),
  bundleId: z
    .string()
    .regex(/^[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*$/, 'Must be a bundle id such as com.example.app')
    .max(155, 'Must be at most 155 characters')
    .describe('Bundle id of the app, for example com.example.app.'),
  environment: z
    .enum(['production', 'sandbox'])
    .default('production')
    .describe(
      'Where the device tokens are from: production (the default) or sandbox, for apps run from Xcode.',
    ),
});

export const secrets = z.object({
  privateKey: z
    .string()
    .max(4_096, 'Must be at most 4096 characters')
    // Keys copied from an environment variable contain `\n` as two characters.
    .transform((pem) => pem.replaceAll('\\n', '\n'))
    .refine(isSigningKey, 'Must be the private key of a .p8 file, in PEM form')
    .describe('Content of the .p8 file of the signing key, PEM; line breaks may be written as \\n.'),
});

export type Account = {
  readonly config: z.output<typeof config>;
  readonly secrets: z.output<typeof secrets>;
};

export function secretsToRedact({ secrets }: Account, ...further: readonly string[]): string[] {
  return [...secretStrings(secrets), ...further];
}

function isSigningKey(pem: string): boolean {
  try {
    const key = createPrivateKey(pem);
    return key.asymmetricKeyType === 'ec' && key.asymmetricKeyDetails?.namedCurve === 'prime256v1';
  } catch {
    return false;
  }
}
