import type { Channel } from '../message/channel.ts';

const MASK = '***';

/**
 * Returns a masked recipient for readers who need not know it: enough to recognize a known one. Of a phone number the last two
 * digits, of a mail address the first letter and the domain, of a device token the last four characters.
 */
export function maskRecipient(channel: Channel, to: string): string {
  switch (channel) {
    case 'sms':
    case 'whatsapp':
      return `${to.startsWith('+') ? '+' : ''}${MASK}${tail(to, 2)}`;
    case 'email':
      return maskMail(to);
    case 'push':
      return `${MASK}${tail(to, 4)}`;
  }
}

function maskMail(address: string): string {
  const at = address.lastIndexOf('@');
  // A local part of one letter is masked completely.
  const first = /^.(?=.+@)/u.exec(address)?.[0] ?? '';
  return at === -1 ? MASK : `${first}${MASK}${address.slice(at)}`;
}

/** Returns nothing of a text that is hardly longer than its tail. */
function tail(text: string, characters: number): string {
  return text.length < 2 * characters + 2 ? '' : text.slice(-characters);
}
