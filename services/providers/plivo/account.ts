import { z } from 'zod';
import { isSmsSender, SMS_SENDER_RULE } from '#core/domain/message/sms-sender.ts';
import { token } from '../fields.ts';
import { dltSettings } from '../india-dlt.ts';
import { secretStrings } from '../redact.ts';

export const config = z
  .object({
    authId: z
      .string()
      .regex(/^(?:MA|SA)[A-Z0-9]{4,30}$/, 'Must be MA or SA followed by capital letters and digits')
      .describe('Auth ID of the account (begins with MA) or of a subaccount (begins with SA).'),
    from: z
      .string()
      .refine(isSmsSender, SMS_SENDER_RULE)
      .optional()
      .describe(
        'Sender: an E.164 number, a short code or an alphanumeric sender id; Plivo removes spaces and punctuation. This or powerpackUuid.',
      ),
    powerpackUuid: z
      .uuid('Must be a UUID')
      .optional()
      .describe('UUID of a Powerpack. Chooses the sender where the message names none.'),
    ...dltSettings,
  })
  .refine((value) => value.from !== undefined || value.powerpackUuid !== undefined, {
    path: ['from'],
    error: 'One of from and powerpackUuid is required',
    params: { rule: 'required' },
  });

export const secrets = z.object({
  authToken: token(
    'Auth token that belongs to the auth ID; also the key that reports on messages are signed with.',
  ),
});

export type Account = {
  readonly config: z.output<typeof config>;
  readonly secrets: z.output<typeof secrets>;
};

export function headersOf(account: Account): Record<string, string> {
  return {
    authorization: `Basic ${Buffer.from(pairOf(account)).toString('base64')}`,
    accept: 'application/json',
  };
}

/** Returns the resource's URL with the trailing slash that Plivo requires. @param origin as the context gives it. */
export function resourceOf({ config }: Account, origin: (vendorOrigin: string) => string): string {
  return `${origin('https://api.plivo.com')}/v1/Account/${config.authId}/`;
}

export function secretsToRedact(account: Account): string[] {
  return [...secretStrings(account.secrets), pairOf(account)];
}

function pairOf({ config, secrets }: Account): string {
  return `${config.authId}:${secrets.authToken}`;
}
