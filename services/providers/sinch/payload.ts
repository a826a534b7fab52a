import type { OutboundFor } from '#core/domain/message/content.ts';
import { DAY_MS } from '#core/domain/text/duration.ts';
import { withoutPlus } from '../without-plus.ts';

/** https://developers.sinch.com/docs/sms/api-reference/sms/tag/Batches, field `body`. */
export const BODY_CHARACTERS_MAX = 2_000;
/** The longest time that Sinch tries to deliver; also its default without an expiry. */
const EXPIRY_MS_MAX = 3 * DAY_MS;

/** Sends one batch per message, so that the batch's id identifies the message. */
export function batch(
  { id, to, content, expiresAt, receiptUrl }: OutboundFor<'sms'>,
  sender: string | undefined,
  now: number,
) {
  return {
    ...(sender === undefined ? {} : { from: withoutPlus(sender) }),
    to: [withoutPlus(to)],
    body: content.body,
    type: 'mt_text',
    ...parameters(content.body),
    client_reference: id,
    ...(expiresAt - now >= EXPIRY_MS_MAX ? {} : { expire_at: new Date(expiresAt).toISOString() }),
    ...(receiptUrl === undefined
      ? { delivery_report: 'none' }
      : { delivery_report: 'per_recipient', callback_url: receiptUrl }),
  };
}

/** The syntax that Sinch reads as a parameter in a text; a batch without the parameter's value fails with code 405. */
const PARAMETER = /\$\{([A-Za-z0-9_-]{1,16})\}/g;

/** Sets each parameter's value to the parameter's own text, so that the text arrives unchanged. */
function parameters(body: string): { readonly parameters?: Readonly<Record<string, object>> } {
  const found = [...body.matchAll(PARAMETER)].map(([text, key = '']) => [key, { default: text }] as const);
  return found.length === 0 ? {} : { parameters: Object.fromEntries(found) };
}
