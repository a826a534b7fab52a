import { z } from 'zod';
import { headerText, mailAddress, token } from '../fields.ts';

export const ORIGIN = 'https://api.resend.com';

const PREFIX = 'whsec_';

export const config = z.object({
  from: mailAddress(
    'Default sender address, of a domain verified with Resend; used with `fromName`.',
  ).optional(),
  fromName: headerText('Sender name used with `from` when the message gives none.').optional(),
  replyTo: mailAddress('Where replies go when the message does not say.').optional(),
});

export const secrets = z.object({
  apiKey: token('API key with sending access (begins with re_).'),
  webhookSecret: z
    .string()
    .regex(/^whsec_[A-Za-z0-9+/]{22,128}={0,2}$/, 'Must be whsec_ and then base64')
    .optional()
    .describe(
      'Signing secret of the webhook (begins with whsec_). Without it, only the secret in the receipt URL authenticates receipts.',
    ),
});

export type Account = {
  readonly config: z.output<typeof config>;
  readonly secrets: z.output<typeof secrets>;
};

export function authorization({ secrets }: Account): Record<string, string> {
  return { authorization: `Bearer ${secrets.apiKey}`, accept: 'application/json' };
}

/** Returns the key bytes that calls are signed with. */
export function signingKey(webhookSecret: string): Buffer {
  return Buffer.from(webhookSecret.slice(PREFIX.length), 'base64');
}
