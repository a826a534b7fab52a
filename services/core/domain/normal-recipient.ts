import type { Channel } from './channel.ts';
import { normalAddress } from './mailbox.ts';
import { normalNumber } from './phone-number.ts';

/**
 * The form in which recipients are compared and called: E.164, an address with its domain in lower case, a device token
 * without the space around it. Undefined for what is none of the channel's.
 */
export function normalRecipient(channel: Channel, text: string): string | undefined {
  switch (channel) {
    case 'sms':
    case 'whatsapp':
      return normalNumber(text);
    case 'email':
      return normalAddress(text);
    case 'push': {
      const token = text.trim();
      return token === '' ? undefined : token;
    }
  }
}
