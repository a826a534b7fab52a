import type { EmailContent } from '#core/domain/content.ts';

type Mailbox = EmailContent['from'];
type Sender = { readonly from?: string | undefined; readonly fromName?: string | undefined };

/** The sender of a mail: the account's display name goes with the account's own address, unless the mail names its own. */
export function senderOf({ from }: EmailContent, account: Sender): Mailbox {
  const isAccount = from.address.toLowerCase() === account.from?.toLowerCase();
  return from.name === undefined && account.fromName !== undefined && isAccount
    ? { address: from.address, name: account.fromName }
    : from;
}

/** Where replies go: what the mail says, else the account. */
export function replyToOf(
  { replyTo }: EmailContent,
  account: { readonly replyTo?: string | undefined },
): Mailbox | undefined {
  return replyTo ?? (account.replyTo === undefined ? undefined : { address: account.replyTo });
}

/** A mailbox as one text (RFC 5322). The name is always quoted: it may hold commas, dots and brackets. */
export function mailboxText({ name, address }: Mailbox): string {
  return name === undefined ? address : `"${name.replace(/["\\]/g, '\\$&')}" <${address}>`;
}
