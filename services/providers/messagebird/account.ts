import { z } from 'zod';
import { isSmsSender, SMS_SENDER_RULE } from '#core/domain/message/sms-sender.ts';
import { optionalToken, token } from '../fields.ts';

export const ORIGIN = 'https://rest.messagebird.com';

export const config = z.object({
  originator: z
    .string()
    .refine(isSmsSender, SMS_SENDER_RULE)
    .describe(
      'Sender of messages that name none: an E.164 number, a short code or an alphanumeric sender id.',
    ),
});

export const secrets = z.object({
  accessKey: token('Access key of the REST API.'),
  signingKey: optionalToken(
    'Signing key of the account. If it is set, unsigned receipts are refused; else only the token in the receipt URL authenticates them.',
  ),
});

export type Account = {
  readonly config: z.output<typeof config>;
  readonly secrets: z.output<typeof secrets>;
};

export function headersOf({ secrets }: Account): Record<string, string> {
  return { authorization: `AccessKey ${secrets.accessKey}`, accept: 'application/json' };
}
