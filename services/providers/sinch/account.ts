import { z } from 'zod';
import { isSmsSender, SMS_SENDER_RULE } from '#core/domain/message/sms-sender.ts';
import { optionalToken, token } from '../fields.ts';

export const config = z.object({
  servicePlanId: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,64}$/, 'Must be letters, digits, hyphens and underscores, at most 64')
    .describe('ID of the service plan.'),
  region: z
    .enum(['us', 'eu', 'br', 'ca', 'au'])
    .default('us')
    .describe('Region of the service plan: us, eu, br, ca or au. Default us.'),
  from: z
    .string()
    .refine(isSmsSender, SMS_SENDER_RULE)
    .optional()
    .describe(
      'Sender: an E.164 number, a short code or an alphanumeric sender id. Without one Sinch takes the default originator, which has to be set up for the service plan.',
    ),
});

export const secrets = z.object({
  apiToken: token('API token of the service plan.'),
  webhookSecret: optionalToken(
    'Secret with which Sinch signs its callbacks, if Sinch has switched signing on for the service plan. If it is set, unsigned callbacks are refused; else only the token in the receipt URL authenticates them.',
  ),
});

export type Account = {
  readonly config: z.output<typeof config>;
  readonly secrets: z.output<typeof secrets>;
};

export function headersOf({ secrets }: Account): Record<string, string> {
  return { authorization: `Bearer ${secrets.apiToken}`, accept: 'application/json' };
}

/** Returns the URL of the service plan's message batches. */
export function batchesOf({ config }: Account, origin: (vendorOrigin: string) => string): string {
  return `${origin(`https://${config.region}.sms.api.sinch.com`)}/xms/v1/${config.servicePlanId}/batches`;
}
