import { z } from 'zod';
import { isSmsSender, SMS_SENDER_RULE } from '#core/domain/message/sms-sender.ts';
import { token } from '../fields.ts';
import { dltSettings, type DltConfig } from '../india-dlt.ts';
import { secretStrings } from '../redact.ts';

const LABEL = '[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?';
/** Tenants choose the host, so it must be one under Infobip's own domain. */
const HOST = new RegExp(`^(?:${LABEL}\\.){1,3}infobip\\.com$`);

const baseUrl = z
  .string()
  .max(253, 'Must be at most 253 characters')
  .transform((text) =>
    text
      .toLowerCase()
      .replace(/^https:\/\//, '')
      .replace(/\/$/, ''),
  )
  .refine((host) => HOST.test(host), 'Must be a host that ends with .infobip.com, without a path')
  .describe(
    'Base URL of the account, for example xyz123.api.infobip.com; the start page of the portal shows it.',
  );

export const smsConfig = z.object({
  baseUrl,
  from: z
    .string()
    .refine(isSmsSender, SMS_SENDER_RULE)
    .describe('Sender: an E.164 number, a short code or an alphanumeric sender id.'),
  ...dltSettings,
});

export const whatsappConfig = z.object({
  baseUrl,
  from: z
    .string()
    .regex(/^\+[1-9]\d{1,14}$/, 'Must be an E.164 number')
    .describe('Sender: the E.164 number of a WhatsApp sender.'),
});

export const secrets = z.object({
  apiKey: token('API key that may send messages of this channel.'),
});

export type Account = {
  readonly config: DltConfig & { readonly baseUrl: string; readonly from: string };
  readonly secrets: z.output<typeof secrets>;
};

export function vendorOrigin({ config }: Account): string {
  return `https://${config.baseUrl}`;
}

export function authorization({ secrets }: Account): Record<string, string> {
  return { authorization: `App ${secrets.apiKey}`, accept: 'application/json' };
}

export function secretsToRedact({ secrets }: Account): string[] {
  return secretStrings(secrets);
}
