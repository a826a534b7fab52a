import type { Channel } from '../message/channel.ts';
import type { StoredEvent } from '../webhooks/stored-event.ts';
import { maskRecipient } from './mask-recipient.ts';

/** Returns the event without the recipient, for an event of a message or of a suppression entry. */
export function maskedEvent(event: StoredEvent): StoredEvent {
  const { message, details } = event;
  if (message !== null) {
    return { ...event, message: { ...message, to: maskRecipient(message.channel, message.to) } };
  }
  const { address, channel } = details ?? {};
  if (typeof address !== 'string') return event;
  return { ...event, details: { ...details, address: maskRecipient(channel as Channel, address) } };
}
