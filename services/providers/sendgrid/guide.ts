import type { ProviderGuide } from '../guide.ts';
import { MAIL_EXAMPLE } from '../mail-guide.ts';

export const sendgridGuide: ProviderGuide<'email'> = {
  documentation: 'https://www.twilio.com/docs/sendgrid/api-reference/mail-send/mail-send',
  credentials: [
    'In the SendGrid console open Settings > API Keys and create a key. Restricted access with the permission Mail Send is enough.',
    'Verify the domain or the address of the sender under Settings > Sender Authentication.',
    'An account of the EU region needs `region` eu, and a key that was created there.',
  ],
  account: {
    publicConfig: { from: 'hello@example.com', fromName: 'Acme' },
    secretConfig: { apiKey: 'SG.your-api-key' },
  },
  fields: {
    from: '`from`. It must be verified with SendGrid.',
    subject: '`subject`.',
    bodyHtml: 'A `content` of `text/html`.',
    bodyText: 'A `content` of `text/plain`.',
    replyTo: '`reply_to`.',
    headers: '`headers`.',
    attachments: '`attachments`.',
    expiresAt: null,
  },
  messages: [MAIL_EXAMPLE],
  limits: [
    'SendGrid limits the calls per period and says when it accepts calls again; Despatch waits until then.',
  ],
  unsupported: ['Dynamic templates, cc and bcc, categories, scheduling at SendGrid and tracking settings.'],
};
