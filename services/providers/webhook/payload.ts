import type { OutboundMessage } from '#core/domain/message/content.ts';
import { senderOf } from '../mailbox.ts';
import type { Account } from './account.ts';

/**
 * Builds the request for a message. Fields are only ever added, never removed; the guide on own gateways documents them.
 */
export function messagePayload(message: OutboundMessage, { config }: Account, now: number) {
  const { id, attempt, channel, to, expiresAt, receiptUrl } = message;
  const from = senderUsed(message, config);
  return {
    type: 'message.send',
    timestamp: new Date(now).toISOString(),
    data: {
      messageId: id,
      attempt,
      channel,
      to,
      ...(from === undefined ? {} : { from }),
      content: contentOf(message, config),
      expiresAt: new Date(expiresAt).toISOString(),
      ...(receiptUrl === undefined ? {} : { receiptUrl }),
    },
  };
}

/** Builds the credential check: signed like a message but without one. */
export function checkPayload(channel: OutboundMessage['channel'], now: number) {
  return { type: 'gateway.check', timestamp: new Date(now).toISOString(), data: { channel } };
}

/** A mail names its own sender; a push message has none. */
export function senderUsed(
  { channel, from }: Pick<OutboundMessage, 'channel' | 'from'>,
  config: Account['config'],
): string | undefined {
  return channel === 'sms' || channel === 'whatsapp' ? (from ?? config.from) : undefined;
}

function contentOf(message: OutboundMessage, config: Account['config']) {
  return message.channel === 'email'
    ? { ...message.content, from: senderOf(message.content, config) }
    : message.content;
}
