import { z } from 'zod';
import { headerText, mailAddress, optionalToken, token } from '../fields.ts';
import { secretStrings } from '../redact.ts';

const DOMAIN =
  /^(?=.{1,253}$)(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?$/;

export const config = z.object({
  domain: z
    .string()
    .regex(DOMAIN, 'Must be a domain name')
    .describe('Sending domain as Mailgun knows it, for example mg.example.com.'),
  region: z
    .enum(['us', 'eu'])
    .default('us')
    .describe('Region of the domain: us or eu. Default us; the other region does not know the domain.'),
  from: mailAddress('Default sender address; used with `fromName`.').optional(),
  fromName: headerText('Sender name used with `from` when the message gives none.').optional(),
  replyTo: mailAddress('Where replies go when the message does not say.').optional(),
});

export const secrets = z.object({
  apiKey: token('API key of the account, or sending key of the domain.'),
  webhookSigningKey: optionalToken(
    'HTTP webhook signing key. Without it, only the secret in the receipt URL authenticates receipts.',
  ),
});

export type Account = {
  readonly config: z.output<typeof config>;
  readonly secrets: z.output<typeof secrets>;
};

export function vendorOrigin({ config }: Account): string {
  return config.region === 'eu' ? 'https://api.eu.mailgun.net' : 'https://api.mailgun.net';
}

export function authorization({ secrets }: Account): Record<string, string> {
  const pair = Buffer.from(`api:${secrets.apiKey}`).toString('base64');
  return { authorization: `Basic ${pair}`, accept: 'application/json' };
}

export function secretsToRedact({ secrets }: Account): string[] {
  return [...secretStrings(secrets), `api:${secrets.apiKey}`];
}
