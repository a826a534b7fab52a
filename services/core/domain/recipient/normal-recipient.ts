import type { Channel } from '../message/channel.ts';
import { normalAddress } from './mailbox.ts';
import { normalNumber } from './phone-number.ts';

/**
 * Returns the form in which recipients are compared and sent to providers: E.164, an address in its normal form
 * (`normalAddress`; suppressions ignore its case too, `addressKeyHex`), or a device token without surrounding space. Undefined for a
 * text that is no recipient of the channel.
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
