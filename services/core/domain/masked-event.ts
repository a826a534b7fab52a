import type { Channel } from './channel.ts';
import type { StoredEvent } from './event-envelope.ts';
import { maskRecipient } from './mask-recipient.ts';

/** The event as it is told where the recipient is not to be: of a message, or of an entry of the suppression list. */
export function maskedEvent(event: StoredEvent): StoredEvent {
  const { message, details } = event;
  if (message !== null) {
    return { ...event, message: { ...message, to: maskRecipient(message.channel, message.to) } };
  }
  const { address, channel } = details ?? {};
  if (typeof address !== 'string') return event;
  return { ...event, details: { ...details, address: maskRecipient(channel as Channel, address) } };
}
