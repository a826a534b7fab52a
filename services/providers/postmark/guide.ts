import type { ProviderGuide } from '../guide.ts';
import { MAIL_EXAMPLE } from '../mail-guide.ts';

export const postmarkGuide: ProviderGuide<'email'> = {
  documentation: 'https://postmarkapp.com/developer/api/email-api#send-a-single-email',
  credentials: [
    'In Postmark open Servers, your server, tab API Tokens. A server API token is `serverToken`.',
    'Confirm the sender’s address, or its domain, under Sender Signatures.',
    'Bulk mails need a broadcast stream: set `messageStream` to its id (Message Streams).',
  ],
  account: {
    publicConfig: { from: 'hello@example.com', fromName: 'Acme', messageStream: 'outbound' },
    secretConfig: { serverToken: 'your-server-api-token' },
  },
  fields: {
    from: '`From`. It must be confirmed with Postmark.',
    subject: '`Subject`.',
    bodyHtml: '`HtmlBody`.',
    bodyText: '`TextBody`.',
    replyTo: '`ReplyTo`, instead of the account’s.',
    headers: '`Headers`.',
    attachments: '`Attachments`.',
    expiresAt: null,
  },
  messages: [MAIL_EXAMPLE],
  limits: [
    'Postmark refuses an address that it has deactivated after a hard bounce or a complaint.',
    'Postmark refuses a mail of more than 10 MB, counted with its attachments in base64, and one with a text or an HTML part of more than 5 MB.',
  ],
  unsupported: [
    'Templates, cc and bcc, Postmark tags and tracking settings.',
    'Signed receipts: Postmark signs none. The secret in the receipt URL authenticates them.',
  ],
};
