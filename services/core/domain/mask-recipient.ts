import type { Channel } from './channel.ts';

const MASK = '***';

/**
 * A recipient as it is told to whoever need not know it: enough to recognise one that is known. Of a phone number the last two
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
  // Of a local part of one letter nothing is left to hide.
  const first = /^.(?=.+@)/u.exec(address)?.[0] ?? '';
  return at === -1 ? MASK : `${first}${MASK}${address.slice(at)}`;
}

/** Nothing of a text that is hardly longer. */
function tail(text: string, characters: number): string {
  return text.length < 2 * characters + 2 ? '' : text.slice(-characters);
}
