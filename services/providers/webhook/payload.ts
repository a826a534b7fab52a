import type { OutboundMessage } from '#core/domain/content.ts';
import { senderOf } from '../mailbox.ts';
import type { Account } from './account.ts';

/** What a gateway is sent for a message. Its fields only ever become more; the guide on own gateways describes them. */
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

/** The credential check: signed like a message, and about none. */
export function checkPayload(channel: OutboundMessage['channel'], now: number) {
  return { type: 'gateway.check', timestamp: new Date(now).toISOString(), data: { channel } };
}

/** Mails name their sender themselves, push messages have none. */
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
