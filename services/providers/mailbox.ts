import type { EmailContent } from '#core/domain/message/content.ts';
import { asciiDomain } from '#core/domain/recipient/ascii-domain.ts';
import type { Failure } from '#core/domain/sending/failure.ts';

type Mailbox = EmailContent['from'];
type Sender = { readonly from?: string | undefined; readonly fromName?: string | undefined };

/**
 * Returns the sender of a mail. The account's display name applies only to the account's own address, when the mail names
 * no sender.
 */
export function senderOf({ from }: EmailContent, account: Sender): Mailbox {
  const isAccount = from.address.toLowerCase() === account.from?.toLowerCase();
  return from.name === undefined && account.fromName !== undefined && isAccount
    ? { address: from.address, name: account.fromName }
    : from;
}

/** Returns the reply-to address: the mail's own, or else the account's. */
export function replyToOf(
  { replyTo }: EmailContent,
  account: { readonly replyTo?: string | undefined },
): Mailbox | undefined {
  return replyTo ?? (account.replyTo === undefined ? undefined : { address: account.replyTo });
}

/** Formats a mailbox as one text (RFC 5322). The name is always quoted because it may contain commas, dots and brackets. */
export function mailboxText({ name, address }: Mailbox): string {
  return name === undefined ? address : `"${name.replace(/["\\]/g, '\\$&')}" <${address}>`;
}

/** Returns the mailbox with its domain in ASCII form. */
export function asciiMailbox(mailbox: Mailbox): Mailbox {
  return { ...mailbox, address: asciiAddress(mailbox.address) };
}

/**
 * The failure of a provider that takes only ASCII before the `@`. Such an address may exist, so the recipient is not suppressed.
 */
export const UNSUPPORTED_RECIPIENT: Failure = { class: 'invalid_recipient', code: 'unsupported_address' };

/** Returns whether the part before the `@` has only ASCII characters; unlike a domain, it has no ASCII form. */
export function hasAsciiLocalPart(address: string): boolean {
  return /^[ -~]*$/.test(address.slice(0, address.lastIndexOf('@')));
}

/** Returns the address with its domain in ASCII form, which every mail server and vendor accepts. */
export function asciiAddress(address: string): string {
  const at = address.lastIndexOf('@');
  const domain = address.slice(at + 1);
  return `${address.slice(0, at)}@${asciiDomain(domain) ?? domain}`;
}
