import type { ProviderGuide } from '../guide.ts';
import { MAIL_EXAMPLE } from '../mail-guide.ts';

export const mailgunGuide: ProviderGuide<'email'> = {
  documentation:
    'https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages/post-v3--domain-name--messages',
  credentials: [
    'In Mailgun open Send > Sending > Domains. `domain` is the name of the sending domain, and `region` the region in which it was created: us or eu.',
    'A sending key of the domain (Domain settings > Sending keys) is enough for `apiKey`; with an API key of the account (Account settings > API security) Despatch can also look up messages on which Mailgun has not reported.',
  ],
  account: {
    publicConfig: { domain: 'mg.example.com', region: 'eu', from: 'hello@mg.example.com', fromName: 'Acme' },
    secretConfig: { apiKey: 'your-sending-key', webhookSigningKey: 'your-signing-key' },
  },
  fields: {
    from: '`from`.',
    subject: '`subject`.',
    bodyHtml: '`html`.',
    bodyText: '`text`.',
    replyTo: '`h:Reply-To`, instead of the account’s.',
    headers: 'Fields that begin with `h:`.',
    attachments: '`attachment`.',
    expiresAt: '`o:deliver-within`, if less than eight hours are left; at least five minutes.',
  },
  messages: [MAIL_EXAMPLE],
  limits: [
    'Mailgun tries for eight hours.',
    'Mailgun takes at most 16 kB of headers.',
    'The recipient can find the message’s id in a header of the mail (`X-Mailgun-Variables`).',
  ],
  unsupported: [
    'Templates, tags, cc and bcc, test mode and scheduling at Mailgun.',
    'The signature of a receipt covers its token and its time, not its content. The secret in the receipt URL authenticates the content.',
  ],
};
