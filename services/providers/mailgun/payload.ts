import type { OutboundFor } from '#core/domain/message/content.ts';
import { asciiMailbox, mailboxText, replyToOf, senderOf } from '../mailbox.ts';
import { attachmentsOf, headersOf, textsOf } from '../mail-content.ts';
import type { Account } from './account.ts';
import type { FormField } from './form.ts';

/**
 * A variable that Mailgun repeats in each event; it carries the message's id. It is also part of a header that the
 * recipient can see.
 */
export const REFERENCE = 'despatch_message_id';

/** How long Mailgun itself retries a mail. */
const TRIED_MINUTES = 8 * 60;
const WINDOW_MINUTES_MIN = 5;

/** https://documentation.mailgun.com/docs/mailgun/api-reference/send/mailgun/messages/post-v3--domain-name--messages */
export function mailgunForm(
  { id, to, content, expiresAt }: OutboundFor<'email'>,
  config: Account['config'],
  now: number,
): FormField[] {
  const replyTo = replyToOf(content, config);
  const window = deliveryWindow(expiresAt - now);
  return [
    ['from', mailboxText(asciiMailbox(senderOf(content, config)))],
    ['to', to],
    ['subject', content.subject],
    ...Object.entries(textsOf(content)),
    ...(replyTo === undefined ? [] : [['h:Reply-To', mailboxText(asciiMailbox(replyTo))] as const]),
    ...headersOf(content).map(([name, value]) => [`h:${name}`, value] as const),
    ...(window === undefined ? [] : [['o:deliver-within', window] as const]),
    [`v:${REFERENCE}`, id],
    ...attachmentsOf(content).map(({ filename, contentType, content: base64 }): FormField => {
      return ['attachment', { filename, contentType, bytes: Buffer.from(base64, 'base64') }];
    }),
  ];
}

/** Prevents Mailgun from delivering a mail after its expiry; formatted like `1h30m`. At least five minutes. */
function deliveryWindow(remainingMs: number): string | undefined {
  const minutes = Math.max(WINDOW_MINUTES_MIN, Math.floor(remainingMs / 60_000));
  if (minutes >= TRIED_MINUTES) return undefined;
  const [hours, rest] = [Math.floor(minutes / 60), minutes % 60];
  return `${hours === 0 ? '' : `${hours}h`}${rest === 0 ? '' : `${rest}m`}`;
}
