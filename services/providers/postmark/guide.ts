import type { ProviderGuide } from '../guide.ts';
import { MAIL_EXAMPLE } from '../mail-guide.ts';

export const postmarkGuide: ProviderGuide<'email'> = {
  documentation: 'https://postmarkapp.com/developer/api/email-api#send-a-single-email',
  credentials: [
    'In Postmark open Servers, your server, tab API Tokens. A server API token is `serverToken`.',
    'Confirm the address that mails come from, or its domain, under Sender Signatures.',
    'Mails in bulk need a broadcast stream: put its id (Message Streams) into `messageStream`.',
  ],
  account: {
    publicConfig: { from: 'hello@example.com', fromName: 'Acme', messageStream: 'outbound' },
    secretConfig: { serverToken: 'your-server-api-token' },
  },
  fields: {
    from: '`From`. It has to be confirmed with Postmark.',
    subject: '`Subject`.',
    bodyHtml: '`HtmlBody`.',
    bodyText: '`TextBody`.',
    replyTo: '`ReplyTo`, in the place of that of the account.',
    headers: '`Headers`.',
    attachments: '`Attachments`.',
    expiresAt: null,
  },
  messages: [MAIL_EXAMPLE],
  limits: ['An address that Postmark has deactivated, after a hard bounce or a complaint, is refused.'],
  unsupported: [
    'Templates, cc and bcc, tags of Postmark and settings of tracking.',
    'Signed receipts: Postmark signs none, so the receipt URL is the secret.',
  ],
};
