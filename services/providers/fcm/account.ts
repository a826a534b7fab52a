import { z } from 'zod';
import { mailAddress } from '../fields.ts';
import type { FieldFault } from '../provider.ts';
import { secretStrings } from '../redact.ts';
import { isRsaPrivateKey, RSA_KEY_MESSAGE } from '../rsa-private-key.ts';

export const config = z.object({
  projectId: z
    .string()
    .regex(/^[a-z][a-z0-9-]{3,61}$/, 'Must be a Google Cloud project id')
    .describe('Firebase project id, for example my-app-1a2b3.'),
  clientEmail: mailAddress(
    'Email address of the service account; not needed with serviceAccountJson.',
  ).optional(),
});

const ServiceAccount = z.looseObject({ client_email: z.email(), private_key: z.string() });

export const secrets = z
  .object({
    privateKey: z
      .string()
      .max(16_384, 'Must be at most 16384 characters')
      .transform(withLineBreaks)
      .refine(isRsaPrivateKey, RSA_KEY_MESSAGE)
      .optional()
      .describe(
        'Private key of the service account, PEM; line breaks may be written as \\n. This or serviceAccountJson.',
      ),
    serviceAccountJson: z
      .string()
      .max(32_768, 'Must be at most 32768 characters')
      .refine(
        (text) => readServiceAccount(text) !== undefined,
        'Must be the JSON key file of a service account with an RSA key',
      )
      .optional()
      .describe('Content of the JSON key file of the service account. This or privateKey.'),
  })
  .refine((value) => value.privateKey !== undefined || value.serviceAccountJson !== undefined, {
    path: ['privateKey'],
    error: 'One of privateKey and serviceAccountJson is required',
  });

export type Account = {
  readonly config: z.output<typeof config>;
  readonly secrets: z.output<typeof secrets>;
};

export function checkAccount({ config, secrets }: Account): readonly FieldFault[] {
  if (secrets.privateKey === undefined || config.clientEmail !== undefined) return [];
  return [
    { field: 'publicConfig.clientEmail', rule: 'required', message: 'Required with secretConfig.privateKey' },
  ];
}

type Signer = { readonly clientEmail: string; readonly privateKey: string };

/** Returns the signer of the project; separately given fields take precedence over the key file. */
export function signerOf({ config, secrets }: Account): Signer {
  const file =
    secrets.serviceAccountJson === undefined ? undefined : readServiceAccount(secrets.serviceAccountJson);
  return {
    clientEmail: config.clientEmail ?? file?.clientEmail ?? '',
    privateKey: secrets.privateKey ?? file?.privateKey ?? '',
  };
}

/** Returns every secret of the account, including the key inside the key file. */
export function secretsToRedact(account: Account): string[] {
  return [...secretStrings(account.secrets), signerOf(account).privateKey];
}

/** Keys copied from a JSON file or an environment variable contain `\n` as two characters. */
function withLineBreaks(pem: string): string {
  return pem.replaceAll('\\n', '\n');
}

function readServiceAccount(text: string): Signer | undefined {
  try {
    const { client_email: clientEmail, private_key: key } = ServiceAccount.parse(JSON.parse(text));
    const privateKey = withLineBreaks(key);
    return isRsaPrivateKey(privateKey) ? { clientEmail, privateKey } : undefined;
  } catch {
    return undefined;
  }
}
