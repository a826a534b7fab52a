import type { ProviderGuide } from '../guide.ts';
import { MAIL_EXAMPLE } from '../mail-guide.ts';

export const resendGuide: ProviderGuide<'email'> = {
  documentation: 'https://resend.com/docs/api-reference/emails/send-email',
  credentials: [
    'In Resend open API Keys and create a key with the permission Sending access, or Full access, with which Despatch can also look up messages on which Resend has not reported.',
    'Add and verify the sender’s domain under Domains.',
  ],
  account: {
    publicConfig: { from: 'hello@example.com', fromName: 'Acme' },
    secretConfig: { apiKey: 're_your_api_key' },
  },
  fields: {
    from: '`from`. Its domain must be verified with Resend.',
    subject: '`subject`.',
    bodyHtml: '`html`.',
    bodyText: '`text`.',
    replyTo: '`reply_to`, instead of the account’s.',
    headers: '`headers`.',
    attachments:
      '`attachments`. Resend never sends a mail with an attachment whose type does not fit its name, such as `data.txt` as `text/csv`; such an attachment is sent without its type, and Resend takes the one that fits the name.',
    expiresAt: null,
  },
  messages: [MAIL_EXAMPLE],
  limits: [
    'Resend limits the calls per second of a whole team, by default to ten; Resend shows the limit under Settings > Usage. Set `rateLimitPerSecond` accordingly.',
    'Each call carries the message’s id as its idempotency key, which Resend stores for 24 hours. A call that got no answer is not repeated after that; the message is then `unknown`.',
  ],
  unsupported: ['Templates, topics, cc and bcc, and scheduling at Resend.'],
};
