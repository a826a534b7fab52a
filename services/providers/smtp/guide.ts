import type { ProviderGuide } from '../guide.ts';
import { MAIL_EXAMPLE } from '../mail-guide.ts';

export const smtpGuide: ProviderGuide<'email'> = {
  documentation: null,
  credentials: [
    'Ask the operator of the mail server for its host, its port, a user and a password. Port 587 with STARTTLS is usual.',
    'A mailbox of Google Workspace or Microsoft 365 signs in with OAuth: set `oauthIssuer`, and register an application there (Google Cloud console: APIs & Services > Credentials; Microsoft Entra admin center: App registrations). Its `clientId` and `clientSecret` are secrets of the account.',
    'At Google, have the mailbox consent to the application once, and add the resulting `refreshToken`.',
    'At Microsoft, leave `refreshToken` out and set `oauthTenant`: give the application the permission SMTP.SendAsApp of Office 365 Exchange Online with admin consent, register its service principal in Exchange Online (`New-ServicePrincipal`) and grant it the mailbox (`Add-MailboxPermission`). This holds for as long as the client secret is valid.',
    'A `refreshToken` of a mailbox that consented works at Microsoft too, but it ends after 90 days, because the tokens that replace it are not stored. After that mails wait, and expire, until the account has another one.',
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
    'A mail server has 40 seconds for a whole session, unless the platform’s operator sets another limit. If it answers the content of a mail later, the mail is sent once more, unless its `deliveryGuarantee` is `at_most_once`.',
    'The `Message-ID` contains the message’s id, so that every attempt has the same one.',
    'Addresses with other characters than ASCII before the `@` need a server that offers SMTPUTF8. At any other one the mail fails with `unsupported_address`, or `invalid_sender`, and the recipient is not suppressed.',
    'Ports other than 25, 465, 587 and 2525, and private addresses, need the permission of the platform’s operator.',
  ],
  unsupported: [
    'Receipts: `sent` is the last state of a message. Bounces arrive as mails to the sender’s address.',
    'Cc and bcc, S/MIME and DKIM signatures (the mail server signs).',
  ],
};
