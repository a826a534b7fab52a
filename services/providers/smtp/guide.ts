import type { ProviderGuide } from '../guide.ts';
import { MAIL_EXAMPLE } from '../mail-guide.ts';

export const smtpGuide: ProviderGuide<'email'> = {
  documentation: null,
  credentials: [
    'Ask the operator of the mail server for its host, its port, a user and a password. Port 587 with STARTTLS is usual.',
    'A mailbox of Google Workspace or Microsoft 365 signs in with OAuth: set `oauthIssuer`, register an application there (Google Cloud console: APIs & Services > Credentials; Microsoft Entra admin center: App registrations), and have the mailbox consent to it once. The resulting `clientId`, `clientSecret` and `refreshToken` are the secrets.',
    'If a private authority signed the server’s certificate, put that authority into `caCertificate`.',
  ],
  account: {
    publicConfig: {
      host: 'smtp.example.com',
      username: 'despatch@example.com',
      from: 'hello@example.com',
      fromName: 'Acme',
    },
    secretConfig: { password: 'your-password' },
  },
  fields: {
    from: 'The header `From`, and the sender of the envelope.',
    subject: 'The header `Subject`.',
    bodyHtml: 'The part `text/html`.',
    bodyText: 'The part `text/plain`.',
    replyTo: 'The header `Reply-To`, instead of the account’s.',
    headers: 'Headers of the mail.',
    attachments: 'Parts of the mail.',
    expiresAt: null,
  },
  messages: [MAIL_EXAMPLE],
  limits: [
    'The `Message-ID` contains the message’s id, so that every attempt has the same one.',
    'Ports other than 25, 465, 587 and 2525, and private addresses, need the permission of the platform’s operator.',
  ],
  unsupported: [
    'Receipts: `sent` is the last state of a message. Bounces arrive as mails to the sender’s address.',
    'Cc and bcc, S/MIME and DKIM signatures (the mail server signs).',
  ],
};
