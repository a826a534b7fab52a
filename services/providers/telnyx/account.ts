import { z } from 'zod';
import { isSmsSender, SMS_SENDER_RULE } from '#core/domain/message/sms-sender.ts';
import { token } from '../fields.ts';
import { secretStrings } from '../redact.ts';

export const ORIGIN = 'https://api.telnyx.com';

export const config = z
  .object({
    from: z
      .string()
      .refine(isSmsSender, SMS_SENDER_RULE)
      .optional()
      .describe(
        'Sender: an E.164 number, a short code or an alphanumeric sender id, which needs messagingProfileId too. This or messagingProfileId.',
      ),
    messagingProfileId: z
      .uuid('Must be a UUID')
      .optional()
      .describe(
        'Messaging profile. Chooses a number of its pool where neither the message nor from names a sender.',
      ),
    publicKey: z
      .string()
      .regex(/^[A-Za-z0-9+/]{43}=$/, 'Must be 32 bytes in base64')
      .describe(
        'Public key of the account, in base64, which verifies signed receipts. Portal: Account Settings, Keys & Credentials, Public Key.',
      ),
  })
  .refine((value) => value.from !== undefined || value.messagingProfileId !== undefined, {
    path: ['from'],
    error: 'One of from and messagingProfileId is required',
    params: { rule: 'required' },
  })
  .refine((value) => !isName(value.from) || value.messagingProfileId !== undefined, {
    path: ['messagingProfileId'],
    error: 'Required with an alphanumeric sender id',
    params: { rule: 'required' },
  });

export const secrets = z.object({ apiKey: token('API key of version 2 (begins with KEY).') });

export type Account = {
  readonly config: z.output<typeof config>;
  readonly secrets: z.output<typeof secrets>;
};

export function headersOf({ secrets }: Account): Record<string, string> {
  return { authorization: `Bearer ${secrets.apiKey}`, accept: 'application/json' };
}

export function secretsToRedact({ secrets }: Account): string[] {
  return secretStrings(secrets);
}

function isName(sender: string | undefined): boolean {
  return sender !== undefined && /[A-Za-z]/.test(sender);
}
