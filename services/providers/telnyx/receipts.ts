import { createPublicKey, verify } from 'node:crypto';
import { z } from 'zod';
import type { Failure } from '#core/domain/sending/failure.ts';
import { firstOfList } from '../bounded-elements.ts';
import { referenceOf } from '../callback-reference.ts';
import { parseJson } from '../classify-error.ts';
import {
  PROVIDER_STATUS_MAX,
  type ParsedCall,
  type ParsedReceipt,
  type ReceiptCall,
  type ReceiptDefinition,
} from '../receipt.ts';
import { GENUINE, isTimely, MISMATCH, MISSING, UNTIMELY } from '../signature.ts';
import { PROVIDER_CODE_MAX, vendorText } from '../vendor-text.ts';
import { TELNYX_CODES } from './outcomes.ts';

/** 64 bytes in canonical base64. */
const SIGNATURE = /^[A-Za-z0-9+/]{85}[AQgw]==$/;
const TIMESTAMP_S = /^\d{1,12}$/;

const Event = z.looseObject({
  data: z.looseObject({
    id: z.string().min(1),
    event_type: z.string(),
    occurred_at: z.string().optional().catch(undefined),
    payload: z.looseObject({
      id: z.string().min(1),
      to: firstOfList(z.looseObject({ status: z.string().min(1) })).refine(({ length }) => length > 0),
      errors: firstOfList(z.looseObject({ code: z.union([z.string(), z.number()]) }))
        .optional()
        .catch(undefined),
    }),
  }),
});
const AnyEvent = z.looseObject({ data: z.looseObject({ event_type: z.string().min(1) }) });

/** https://developers.telnyx.com/docs/messaging/messages/receiving-webhooks */
export const telnyxReceipts: ReceiptDefinition<{ readonly publicKey: string }, unknown> = {
  setup: {
    mode: 'automatic',
    steps: [
      'Nothing to configure: each message carries its own webhook address, which takes precedence over that of the messaging profile.',
    ],
  },
  headers: ['telnyx-signature-ed25519', 'telnyx-timestamp'],

  verify(call, { config }) {
    const signature = call.headers['telnyx-signature-ed25519'];
    const timestamp = call.headers['telnyx-timestamp'];
    if (signature === undefined || timestamp === undefined) return MISSING;
    if (!TIMESTAMP_S.test(timestamp) || !SIGNATURE.test(signature)) return MISMATCH;
    if (!isTimely(Number(timestamp) * 1_000, call.receivedAt)) return UNTIMELY;
    return isSigned(call, timestamp, signature, config.publicKey) ? GENUINE : MISMATCH;
  },

  parse(call): ParsedCall {
    const body = parseJson(Buffer.from(call.body).toString('utf8'));
    const type = AnyEvent.safeParse(body).data?.data.event_type;
    if (type === undefined) return { kind: 'unreadable' };
    // Inbound messages, among others.
    if (type !== 'message.sent' && type !== 'message.finalized') return { kind: 'receipts', receipts: [] };
    const event = Event.safeParse(body).data?.data;
    return event === undefined
      ? { kind: 'unreadable' }
      : { kind: 'receipts', receipts: [receipt(call.url, event)] };
  },
};

function isSigned({ body }: ReceiptCall, timestamp: string, signature: string, publicKey: string): boolean {
  const x = Buffer.from(publicKey, 'base64').toString('base64url');
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' });
  const signed = Buffer.concat([Buffer.from(`${timestamp}|`), body]);
  return verify(null, signed, key, Buffer.from(signature, 'base64'));
}

/** `data.id` is the event's id; the message's id is in the payload. */
function receipt(url: string, event: z.output<typeof Event>['data']): ParsedReceipt {
  const { id, to, errors } = event.payload;
  const status = to[0]?.status ?? '';
  const at = Date.parse(event.occurred_at ?? '');
  return {
    ...referenceOf(url),
    providerMessageId: id,
    eventId: event.id,
    providerStatus: status.slice(0, PROVIDER_STATUS_MAX),
    ...(Number.isNaN(at) ? {} : { at }),
    ...meaningOf(status, errors?.[0]?.code),
  };
}

/** Returns the meaning of a Telnyx message state. */
export function meaningOf(
  status: string,
  errorCode: string | number | undefined,
): Pick<ParsedReceipt, 'state' | 'failure'> {
  switch (status) {
    case 'sent':
    // The carrier accepted the message and reports nothing further.
    case 'delivery_unconfirmed':
      return { state: 'sent' };
    case 'delivered':
      return { state: 'delivered' };
    case 'sending_failed':
    case 'delivery_failed':
    case 'expired':
    case 'cancelled':
      return { state: 'undelivered', failure: failureOf(errorCode) };
    default:
      return {};
  }
}

function failureOf(errorCode: string | number | undefined): Failure {
  if (errorCode === undefined) return { class: 'unknown', code: 'undelivered' };
  const providerCode = vendorText(String(errorCode), PROVIDER_CODE_MAX);
  const known = Object.hasOwn(TELNYX_CODES, providerCode) ? TELNYX_CODES[providerCode] : undefined;
  return { class: known?.class ?? 'unknown', code: known?.code ?? 'undelivered', providerCode };
}
