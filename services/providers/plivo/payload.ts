import type { OutboundFor } from '#core/domain/message/content.ts';
import { smsSegments } from '#core/domain/message/segments.ts';
import { withReference } from '../callback-reference.ts';
import { dltFields } from '../india-dlt.ts';
import { withoutPlus } from '../without-plus.ts';
import type { Account } from './account.ts';

/** https://www.plivo.com/docs/messaging/api/message/send-a-message, parameter `text`. */
export const BODY_CHARACTERS_MAX = 1_600;
const UNICODE_UNITS_MAX = 737;
/** How long a message may wait at Plivo, in seconds; above the maximum, and by default, Plivo waits three hours. */
const EXPIRY_S = { min: 5, max: 10_799 } as const;

export type Sender = { readonly src: string } | { readonly powerpack_uuid: string };

/** Plivo requires exactly one of sender and Powerpack. */
export function senderOf(from: string | undefined, config: Account['config']): Sender {
  if (from !== undefined) return { src: from };
  if (config.powerpackUuid !== undefined) return { powerpack_uuid: config.powerpackUuid };
  return { src: config.from ?? '' };
}

/** A text outside the GSM alphabet has a lower length limit. */
export function isTooLong(text: string): boolean {
  return text.length > UNICODE_UNITS_MAX && smsSegments(text).encoding === 'UCS-2';
}

export function payloadOf(
  { id, to, content, expiresAt, receiptUrl }: OutboundFor<'sms'>,
  sender: Sender,
  config: Account['config'],
  now: number,
) {
  return {
    ...sender,
    dst: withoutPlus(to),
    text: content.body,
    type: 'sms',
    ...dltFields(to, config, { entity: 'dlt_entity_id', template: 'dlt_template_id' }),
    ...expiry(expiresAt - now),
    ...(receiptUrl === undefined ? {} : { url: withReference(receiptUrl, id), method: 'POST' }),
  };
}

function expiry(remainingMs: number): { readonly message_expiry?: number } {
  const seconds = Math.max(EXPIRY_S.min, Math.floor(remainingMs / 1_000));
  return seconds > EXPIRY_S.max ? {} : { message_expiry: seconds };
}
