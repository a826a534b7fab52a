import type { EmailContent } from '#core/domain/content.ts';

type Sender = { readonly from?: string | undefined; readonly fromName?: string | undefined };

/** The sender of a mail: the account's display name goes with the account's own address, unless the mail names its own. */
export function senderOf({ from }: EmailContent, account: Sender): EmailContent['from'] {
  const isAccount = from.address.toLowerCase() === account.from?.toLowerCase();
  return from.name === undefined && account.fromName !== undefined && isAccount
    ? { address: from.address, name: account.fromName }
    : from;
}
