import { z } from 'zod';
import type { Failure } from '#core/domain/sending/failure.ts';
import { bounceFailure } from '../bounce.ts';
import { boundedList, firstOfList } from '../bounded-elements.ts';
import { parseJson } from '../classify-error.ts';
import { PROVIDER_STATUS_MAX, type ParsedReceipt, type ReceiptDefinition } from '../receipt.ts';
import { UNSIGNED } from '../signature.ts';
import { judgeSignature, SIGNED_HEADERS, SVIX_HEADERS } from '../standard-webhook.ts';
import { signingKey, type Account } from './account.ts';
import { BOUNCES, ON_SUPPRESSION_LIST } from './outcomes.ts';
import { REFERENCE } from './payload.ts';

/** Resend takes at most 50 recipients for a mail. Each one is looked for in the text of a bounce. */
const RECIPIENTS_MAX = 50;

const text = z.string().optional().catch(undefined);
const tag = { [REFERENCE]: text };
/** Resend sends a map; the list form of the send request is accepted too. */
const Tags = z
  .union([
    boundedList(z.looseObject({ name: z.string(), value: z.string() })).transform((tags) => ({
      [REFERENCE]: tags.find(({ name }) => name === REFERENCE)?.value,
    })),
    z.looseObject(tag),
  ])
  .optional()
  .catch(undefined);
/** What Resend adds to some events and to the mail that is looked up. */
export const DETAILS = {
  to: boundedList(z.string(), RECIPIENTS_MAX).optional().catch(undefined),
  bounce: z
    .looseObject({
      message: text,
      type: text,
      subType: text,
      diagnosticCode: firstOfList(z.string()).optional().catch(undefined),
    })
    .optional()
    .catch(undefined),
  failed: z.looseObject({ reason: text }).optional().catch(undefined),
  suppressed: z.looseObject({ message: text, type: text }).optional().catch(undefined),
};
const Event = z.looseObject({
  type: z.string().min(1),
  created_at: text,
  data: z.looseObject({ email_id: text, tags: Tags, ...DETAILS }),
});
type Event = z.output<typeof Event>;
type Details = Pick<Event['data'], keyof typeof DETAILS>;

/** https://resend.com/docs/webhooks/event-types */
export const resendReceipts: ReceiptDefinition<unknown, Account['secrets']> = {
  setup: {
    mode: 'manual',
    steps: [
      'In Resend open Webhooks and add a webhook with the receipt URL of this provider account as its endpoint.',
      'Choose the events email.sent, email.delivered, email.bounced, email.failed, email.suppressed and email.complained.',
      'For engagement choose email.opened and email.clicked too, and switch on tracking for the domain.',
      'Put the signing secret that Resend then shows (whsec_...) into the secret webhookSecret of this provider account.',
    ],
  },
  engagement: ['opened', 'clicked', 'complained'],
  headers: [...SVIX_HEADERS, ...SIGNED_HEADERS],
  answer: { status: 200 },

  verify(call, { secrets: { webhookSecret } }) {
    // Resend shows the secret only after the webhook is created, which needs this account's URL; until then the URL token
    // authenticates the call.
    if (webhookSecret === undefined) return UNSIGNED;
    const names = call.headers['svix-id'] === undefined ? SIGNED_HEADERS : SVIX_HEADERS;
    return judgeSignature(call, signingKey(webhookSecret), names);
  },

  parse(call) {
    const event = Event.safeParse(parseJson(Buffer.from(call.body).toString('utf8')));
    if (!event.success) return { kind: 'unreadable' };
    const eventId = call.headers['svix-id'] ?? call.headers['webhook-id'];
    return { kind: 'receipts', receipts: receiptsOf(event.data, eventId) };
  },
};

/** @param eventId equal for each repetition of a call. */
function receiptsOf(event: Event, eventId: string | undefined): ParsedReceipt[] {
  const { type, data } = event;
  // The other events are about contacts, domains and inbound mail.
  if (!type.startsWith('email.') || type === 'email.received') return [];
  const reference = data.tags?.[REFERENCE];
  if (!reference && !data.email_id) return [];
  const at = Date.parse(event.created_at ?? '');
  return [
    {
      ...(reference ? { reference } : {}),
      ...(data.email_id ? { providerMessageId: data.email_id } : {}),
      ...(eventId ? { eventId } : {}),
      ...(Number.isNaN(at) ? {} : { at }),
      providerStatus: type.slice(0, PROVIDER_STATUS_MAX),
      ...meaningOf(event),
    },
  ];
}

/** Returns the meaning of an event, such as `email.bounced`, for its mail. */
export function meaningOf({
  type,
  data,
}: {
  readonly type: string;
  readonly data: Details;
}): Pick<ParsedReceipt, 'state' | 'failure' | 'engagement'> {
  switch (type) {
    case 'email.sent':
      return { state: 'sent' };
    case 'email.delivered':
      return { state: 'delivered' };
    case 'email.bounced':
      return { state: 'undelivered', failure: bounced(data) };
    case 'email.failed':
      return { state: 'undelivered', failure: failed(data) };
    case 'email.suppressed':
      return { state: 'undelivered', failure: suppressed(data) };
    case 'email.complained':
      return { engagement: 'complained' };
    case 'email.opened':
      return { engagement: 'opened' };
    case 'email.clicked':
      return { engagement: 'clicked' };
    // Resend retries a delayed mail.
    default:
      return {};
  }
}

function bounced({ bounce = {}, to = [] }: Details): Failure {
  // The message is Resend's own; the receiving server's answer is more specific.
  const { message, type, subType = '', diagnosticCode: [answer = message] = [] } = bounce;
  // Without a type, as in a lookup, or with a new one nothing says that the address is invalid.
  const isHard = type === 'Permanent';
  const meaning = BOUNCES.get(subType);
  return bounceFailure({ text: answer, isHard, providerCode: subType || type, meaning }, to);
}

function failed({ failed: { reason } = {}, to = [] }: Details): Failure {
  const meaning = /quota/i.test(reason ?? '')
    ? ({ class: 'auth_or_config', code: 'insufficient_credit' } as const)
    : ({ class: 'unknown', code: 'undelivered' } as const);
  return bounceFailure({ text: reason, isHard: false, meaning }, to);
}

function suppressed({ suppressed: { message, type } = {}, to = [] }: Details): Failure {
  return bounceFailure(
    { text: message, isHard: false, providerCode: type, meaning: ON_SUPPRESSION_LIST },
    to,
  );
}
