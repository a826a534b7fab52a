import { z } from 'zod';
import type { Channel } from '#core/domain/message/channel.ts';
import { headerText, mailAddress } from '../fields.ts';
import { secretStrings } from '../redact.ts';

const KEY_BYTES_MIN = 24;
const KEY_BYTES_MAX = 64;
/** Characters of the longest key in base64. */
const KEY_LENGTH_MAX = 4 * Math.ceil(KEY_BYTES_MAX / 3);
const PREFIX = 'whsec_';

const url = z
  .string()
  .max(2_048, 'Must be at most 2048 characters')
  .refine(isGatewayUrl, 'Must be an https URL without a user, a password or a fragment')
  .describe(
    'Your gateway: an https URL that messages are posted to, on port 443. Private addresses and other ports need the permission of the operator.',
  );

const sender = headerText('Sender given to the gateway with messages that name none.').optional();

/** The settings of one channel's gateway. */
export const CONFIGS = {
  sms: z.object({ url, from: sender }),
  whatsapp: z.object({ url, from: sender }),
  push: z.object({ url }),
  email: z.object({
    url,
    from: mailAddress('Default sender address; used with `fromName`.').optional(),
    fromName: headerText('Sender name used with `from` when the message gives none.').optional(),
  }),
} satisfies Record<Channel, z.ZodObject>;

export const secrets = z.object({
  signingSecret: z
    .string()
    .refine(
      isSigningSecret,
      `Must be ${PREFIX} and then ${KEY_BYTES_MIN} to ${KEY_BYTES_MAX} random bytes in base64`,
    )
    .describe(
      `Secret of Standard Webhooks: ${PREFIX} and then ${KEY_BYTES_MIN} to ${KEY_BYTES_MAX} random bytes in base64. Both sides sign with it: the calls to the gateway, and its receipts.`,
    ),
});

export type Account = {
  readonly config: {
    readonly url: string;
    readonly from?: string | undefined;
    readonly fromName?: string | undefined;
  };
  readonly secrets: z.output<typeof secrets>;
};

/** Returns the key bytes that both sides sign with. */
export function signingKey({ signingSecret }: Account['secrets']): Buffer {
  return Buffer.from(signingSecret.slice(PREFIX.length), 'base64');
}

export function secretsToRedact({ secrets }: Pick<Account, 'secrets'>): string[] {
  return [...secretStrings(secrets), secrets.signingSecret.slice(PREFIX.length)];
}

function isGatewayUrl(text: string): boolean {
  const parsed = URL.parse(text);
  return (
    parsed !== null &&
    parsed.protocol === 'https:' &&
    parsed.username === '' &&
    parsed.password === '' &&
    !text.includes('#')
  );
}

function isSigningSecret(text: string): boolean {
  if (!text.startsWith(PREFIX)) return false;
  const base64 = text.slice(PREFIX.length);
  // Checked first: whoever sends a secret chooses its length.
  if (base64.length > KEY_LENGTH_MAX) return false;
  const key = Buffer.from(base64, 'base64');
  const isExact = key.toString('base64').replace(/=+$/, '') === base64.replace(/=+$/, '');
  return isExact && key.length >= KEY_BYTES_MIN && key.length <= KEY_BYTES_MAX;
}
