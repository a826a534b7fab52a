import { createPublicKey, verify, type KeyObject } from 'node:crypto';
import { z } from 'zod';
import { HOUR_MS } from '#core/domain/text/duration.ts';
import type { Failure } from '#core/domain/sending/failure.ts';
import { bounceFailure } from '../bounce.ts';
import { boundedObjects } from '../bounded-elements.ts';
import { parseJson } from '../classify-error.ts';
import { hasAsciiLocalPart, UNSUPPORTED_RECIPIENT } from '../mailbox.ts';
import { PROVIDER_STATUS_MAX, type ParsedReceipt, type ReceiptDefinition } from '../receipt.ts';
import { GENUINE, isTimely, MISMATCH, MISSING, UNSIGNED, UNTIMELY } from '../signature.ts';
import { BOUNCE_CLASSIFICATIONS, DROP_REASONS, EXPIRED, NOT_THE_ADDRESS } from './outcomes.ts';
import { REFERENCE } from './payload.ts';

const SIGNATURE = 'x-twilio-email-event-webhook-signature';
const TIMESTAMP = 'x-twilio-email-event-webhook-timestamp';
/**
 * SendGrid retries a call for a day and does not document whether each try has a new signature. A replay within that time
 * has the same event ids and counts once.
 */
const TRIED_AGAIN_MS = 25 * HOUR_MS;
const ENGAGEMENTS = {
  open: 'opened',
  click: 'clicked',
  spamreport: 'complained',
  unsubscribe: 'unsubscribed',
  group_unsubscribe: 'unsubscribed',
} as const;

const text = z.string().optional().catch(undefined);
const Event = z.looseObject({
  event: z.string().min(1),
  email: text,
  timestamp: z.number().optional().catch(undefined),
  sg_event_id: text,
  sg_message_id: text,
  [REFERENCE]: text,
  type: text,
  status: text,
  reason: text,
  bounce_classification: text,
});
type Event = z.output<typeof Event>;

/** https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/event */
export const sendgridReceipts: ReceiptDefinition<
  { readonly webhookPublicKey?: string | undefined },
  unknown
> = {
  setup: {
    mode: 'manual',
    steps: [
      'In the SendGrid console open Settings > Mail Settings > Event Webhooks and create a webhook.',
      'Enter the receipt URL of this provider account as its Post URL.',
      'Choose all deliverability events, and those engagement events that you want to see.',
      'Switch on Signed Event Webhook, save, and put the verification key that SendGrid then shows into the setting webhookPublicKey of this provider account.',
      'SendGrid also reports messages that other programs send through the same account; Despatch ignores them.',
    ],
  },
  // Calls carry batches of events, thousands from a busy account.
  bytesMax: 4 * 1024 * 1024,
  // A late bounce contains only SendGrid's id.
  mayLackReference: true,
  engagement: ['opened', 'clicked', 'complained', 'unsubscribed'],
  headers: [SIGNATURE, TIMESTAMP],
  answer: { status: 200 },

  verify(call, { config: { webhookPublicKey } }) {
    // SendGrid signs only when the customer enables it. Without a key, the token in the URL authenticates the call.
    if (webhookPublicKey === undefined) return UNSIGNED;
    const signature = call.headers[SIGNATURE];
    const timestamp = call.headers[TIMESTAMP];
    if (!signature || !timestamp) return MISSING;
    const key = publicKeyOf(webhookPublicKey);
    const bytes = Buffer.from(signature, 'base64');
    // The decoder skips characters that are not base64; only the canonical encoding of a signature is accepted.
    if (key === undefined || bytes.toString('base64') !== signature) return MISMATCH;
    const signed = Buffer.concat([Buffer.from(timestamp), call.body]);
    if (!verify('sha256', signed, { key, dsaEncoding: 'der' }, bytes)) return MISMATCH;
    return isTimely(Number(timestamp) * 1_000, call.receivedAt, TRIED_AGAIN_MS) ? GENUINE : UNTIMELY;
  },

  parse(call) {
    const events = parseJson(Buffer.from(call.body).toString('utf8'));
    const given = Array.isArray(events) ? boundedObjects([events]) : undefined;
    if (given === undefined) return { kind: 'unreadable' };
    return { kind: 'receipts', receipts: given.flatMap(receiptsOf) };
  },
};

/**
 * Parses the public key of a P-256 pair; undefined for anything else.
 * @param text base64 of its DER form, as SendGrid shows it.
 */
export function publicKeyOf(text: string): KeyObject | undefined {
  try {
    const key = createPublicKey({ key: Buffer.from(text, 'base64'), format: 'der', type: 'spki' });
    return key.asymmetricKeyDetails?.namedCurve === 'prime256v1' ? key : undefined;
  } catch {
    return undefined;
  }
}

function receiptsOf(given: unknown): ParsedReceipt[] {
  const event = Event.safeParse(given).data;
  if (event === undefined) return [];
  const { [REFERENCE]: reference, sg_event_id: eventId, timestamp } = event;
  // The id of the sent message, then a dot and the SendGrid machine that handled it. Late bounces may have no id.
  const providerMessageId = event.sg_message_id?.split('.', 1)[0];
  if (!reference && !providerMessageId) return [];
  return [
    {
      ...(reference ? { reference } : {}),
      ...(providerMessageId ? { providerMessageId } : {}),
      ...(eventId ? { eventId } : {}),
      ...(timestamp === undefined ? {} : { at: timestamp * 1_000 }),
      providerStatus: event.event.slice(0, PROVIDER_STATUS_MAX),
      ...meaningOf(event),
    },
  ];
}

function meaningOf(event: Event): Pick<ParsedReceipt, 'state' | 'failure' | 'engagement'> {
  switch (event.event) {
    case 'processed':
      return { state: 'sent' };
    case 'delivered':
      return { state: 'delivered' };
    case 'bounce':
      return { state: 'undelivered', failure: bounced(event) };
    case 'dropped':
      return { state: 'undelivered', failure: dropped(event) };
    case 'open':
    case 'click':
    case 'spamreport':
    case 'unsubscribe':
    case 'group_unsubscribe':
      return { engagement: ENGAGEMENTS[event.event] };
    // SendGrid retries a deferred mail.
    default:
      return {};
  }
}

/**
 * `bounce` means that the address is invalid, `blocked` that the server refused this mail. `expired` means that no server
 * took it for 72 hours (SendGrid, glossary, "Expired"); SendGrid's page of events no longer lists it.
 */
function bounced({ type = 'bounce', status, reason, email, bounce_classification }: Event): Failure {
  const classification = bounce_classification?.toLowerCase() ?? '';
  const isHard = type === 'bounce' && !NOT_THE_ADDRESS.has(classification);
  const meaning = type === 'expired' ? EXPIRED : BOUNCE_CLASSIFICATIONS.get(classification);
  return bounceFailure({ status, text: reason, isHard, meaning }, email ? [email] : []);
}

function dropped({ reason = '', status, email }: Event): Failure {
  const known = DROP_REASONS.find(({ pattern }) => pattern.test(reason))?.meaning;
  const isUnsupported = known?.code === 'invalid_address' && !hasAsciiLocalPart(email ?? '');
  const meaning = isUnsupported ? UNSUPPORTED_RECIPIENT : (known ?? { class: 'unknown', code: 'dropped' });
  return bounceFailure({ status, text: reason, isHard: true, meaning }, email ? [email] : []);
}
