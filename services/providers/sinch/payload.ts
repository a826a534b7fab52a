import type { OutboundFor } from '#core/domain/content.ts';
import { withoutPlus } from '../without-plus.ts';

/** https://developers.sinch.com/docs/sms/api-reference/sms/tag/Batches, field `body`. */
export const BODY_CHARACTERS_MAX = 2_000;
/** The longest that Sinch tries to deliver, and also how long it does without an expiry. */
const EXPIRY_MS_MAX = 3 * 86_400_000;

/** One batch for each message, so that the batch's id is the message's. */
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

/** What Sinch would take for parameters in a text; a batch without their values fails with code 405. */
const PARAMETER = /\$\{([A-Za-z0-9_-]{1,16})\}/g;

/** Gives each parameter itself for a value, so that the text arrives as it was written. */
function parameters(body: string): { readonly parameters?: Readonly<Record<string, object>> } {
  const found = [...body.matchAll(PARAMETER)].map(([text, key = '']) => [key, { default: text }] as const);
  return found.length === 0 ? {} : { parameters: Object.fromEntries(found) };
}
