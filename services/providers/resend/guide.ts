import type { ProviderGuide } from '../guide.ts';
import { MAIL_EXAMPLE } from '../mail-guide.ts';

export const resendGuide: ProviderGuide<'email'> = {
  documentation: 'https://resend.com/docs/api-reference/emails/send-email',
  credentials: [
    'In Resend open API Keys and create a key with the permission Sending access, or Full access, with which Despatch can also ask about messages that Resend has not reported on.',
    'Add and verify the domain that mails come from under Domains.',
  ],
  account: {
    publicConfig: { from: 'hello@example.com', fromName: 'Acme' },
    secretConfig: { apiKey: 're_your_api_key' },
  },
  fields: {
    from: '`from`. Its domain has to be verified with Resend.',
    subject: '`subject`.',
    bodyHtml: '`html`.',
    bodyText: '`text`.',
    replyTo: '`reply_to`, in the place of that of the account.',
    headers: '`headers`.',
    attachments: '`attachments`.',
    expiresAt: null,
  },
  messages: [MAIL_EXAMPLE],
  limits: [
    'By default Resend takes two calls in a second for all of a team; set `rateLimitPerSecond` accordingly.',
    'Each call carries the message’s id as its idempotency key, which Resend knows for 24 hours.',
  ],
  unsupported: ['Templates, topics, cc and bcc, and scheduling at Resend.'],
};
