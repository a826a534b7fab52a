import { z } from 'zod';
import { headerText, mailAddress, token } from '../fields.ts';

export const config = z.object({
  from: mailAddress('Default sender address, confirmed with Postmark; used with `fromName`.').optional(),
  fromName: headerText('Sender name used with `from` when the message gives none.').optional(),
  replyTo: mailAddress('Where replies go when the message does not say.').optional(),
  messageStream: z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/, 'Must be letters, digits, hyphens and underscores, at most 64')
    .default('outbound')
    .describe('Id of the message stream that mails go through. Default outbound.'),
});

export const secrets = z.object({
  serverToken: token('Server API token (Servers > your server > API Tokens).'),
});

export type Account = {
  readonly config: z.output<typeof config>;
  readonly secrets: z.output<typeof secrets>;
};
