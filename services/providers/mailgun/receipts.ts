import { z } from 'zod';
import { HOUR_MS } from '#core/domain/text/duration.ts';
import type { Failure } from '#core/domain/sending/failure.ts';
import { bounceFailure } from '../bounce.ts';
import { parseJson } from '../classify-error.ts';
import { hasAsciiLocalPart, UNSUPPORTED_RECIPIENT } from '../mailbox.ts';
import { PROVIDER_STATUS_MAX, type ParsedReceipt, type ReceiptDefinition } from '../receipt.ts';
import { GENUINE, hmac, isSame, isTimely, MISMATCH, MISSING, UNSIGNED, UNTIMELY } from '../signature.ts';
import type { Account } from './account.ts';
import { INVALID_ADDRESS, REASONS, SUPPRESSIONS } from './outcomes.ts';
import { REFERENCE } from './payload.ts';

/** Mailgun retries a call for eight hours, with the signature of the first try. */
const TRIED_AGAIN_MS = 9 * HOUR_MS;

const text = z.string().optional().catch(undefined);
const code = z.union([z.number(), z.string()]).optional().catch(undefined);
const Signed = z.looseObject({
  signature: z.looseObject({
    token: z.string().min(1),
    timestamp: z.union([z.string().min(1), z.number()]),
    signature: z.string().min(1),
    // The signature of the parent account of a subaccount, over the same token and timestamp.
    'parent-signature': text,
  }),
});
/** The common format of an event in a call and in the events log. */
export const Event = z.looseObject({
  event: z.string().min(1),
  timestamp: z.number().optional().catch(undefined),
  recipient: text,
  severity: text,
  reason: text,
  'delivery-status': z
    .looseObject({ code, 'enhanced-code': text, 'bounce-type': text, message: text, description: text })
    .optional()
    .catch(undefined),
  reject: z.looseObject({ reason: text, description: text }).optional().catch(undefined),
  message: z
    .looseObject({ headers: z.looseObject({ 'message-id': text }) })
    .optional()
    .catch(undefined),
  'user-variables': z
    .looseObject({ [REFERENCE]: text })
    .optional()
    .catch(undefined),
});
type Event = z.output<typeof Event>;
const Body = z.looseObject({ 'event-data': Event });

/** https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/webhooks */
export const mailgunReceipts: ReceiptDefinition<unknown, Account['secrets']> = {
  setup: {
    mode: 'manual',
    steps: [
      'In Mailgun open Send > Sending > Webhooks, choose the domain of this provider account and add a webhook.',
      'Enter the receipt URL of this provider account for delivered, permanent failure, spam complaints and unsubscribes.',
      'For engagement enter it for opened and clicked too, and switch on tracking for the domain.',
      'Put the HTTP webhook signing key (Account settings > API security) into the secret webhookSigningKey of this provider account.',
    ],
  },
  engagement: ['opened', 'clicked', 'complained', 'unsubscribed'],
  headers: [],
  answer: { status: 200 },

  /**
   * The signature covers only its token and timestamp, not the report; the token in the URL authenticates the report. A
   * replayed signature counts once, because its token is the event's id.
   */
  verify(call, { secrets: { webhookSigningKey } }) {
    // A domain's sending key comes without the account's signing key; then only the URL token authenticates the call.
    if (webhookSigningKey === undefined) return UNSIGNED;
    const signed = Signed.safeParse(bodyOf(call.body)).data?.signature;
    if (signed === undefined) return MISSING;
    const expected = hmac('sha256', webhookSigningKey, `${signed.timestamp}${signed.token}`);
    const given = [signed.signature, signed['parent-signature'] ?? ''];
    if (!given.some((one) => isSame(one, expected))) return MISMATCH;
    return isTimely(Number(signed.timestamp) * 1_000, call.receivedAt, TRIED_AGAIN_MS) ? GENUINE : UNTIMELY;
  },

  parse(call) {
    const body = bodyOf(call.body);
    const event = Body.safeParse(body);
    if (!event.success) return { kind: 'unreadable' };
    const token = Signed.safeParse(body).data?.signature.token;
    return { kind: 'receipts', receipts: receiptsOf(event.data['event-data'], token) };
  },
};

function bodyOf(body: Uint8Array): unknown {
  return parseJson(Buffer.from(body).toString('utf8'));
}

/** Removes the angle brackets: Mailgun puts them around the id in API responses but not in events. */
export function withoutBrackets(id: string): string {
  return id.replace(/^<|>$/g, '');
}

function receiptsOf(event: Event, token: string | undefined): ParsedReceipt[] {
  const reference = event['user-variables']?.[REFERENCE];
  const providerMessageId = withoutBrackets(event.message?.headers['message-id'] ?? '');
  if (!reference && !providerMessageId) return [];
  return [
    {
      ...(reference ? { reference } : {}),
      ...(providerMessageId ? { providerMessageId } : {}),
      ...(token === undefined ? {} : { eventId: token }),
      ...whatBecameOf(event),
    },
  ];
}

/** Reads the state of a mail from an event, in a call or in the events log. */
export function whatBecameOf(
  event: Event,
): Pick<ParsedReceipt, 'at' | 'providerStatus' | 'state' | 'failure' | 'engagement'> {
  const word = event.severity === undefined ? event.event : `${event.event}:${event.severity}`;
  return {
    ...(event.timestamp === undefined ? {} : { at: Math.round(event.timestamp * 1_000) }),
    providerStatus: word.slice(0, PROVIDER_STATUS_MAX),
    ...meaningOf(event),
  };
}

function meaningOf(event: Event): Pick<ParsedReceipt, 'state' | 'failure' | 'engagement'> {
  switch (event.event) {
    case 'accepted':
      return { state: 'sent' };
    case 'delivered':
      return { state: 'delivered' };
    case 'failed':
      // Mailgun retries a temporary failure.
      return event.severity === 'temporary' ? {} : { state: 'undelivered', failure: failed(event) };
    case 'rejected':
      return { state: 'undelivered', failure: rejected(event) };
    case 'opened':
    case 'clicked':
    case 'complained':
    case 'unsubscribed':
      return { engagement: event.event };
    default:
      return {};
  }
}

function failed({ reason = '', recipient, 'delivery-status': status = {} }: Event): Failure {
  const kind = status['bounce-type'];
  const providerCode = status.code === undefined ? undefined : String(status.code);
  const failure = bounceFailure(
    {
      status: status['enhanced-code'],
      text: status.message || status.description,
      isHard: kind === undefined ? reason === 'bounce' || reason === 'hardfail' : kind === 'hard',
      providerCode,
      meaning: REASONS.get(reason) ?? SUPPRESSIONS.get(providerCode ?? ''),
    },
    recipient ? [recipient] : [],
  );
  // For this server the syntax of a non-ASCII mailbox is wrong; another one may take it.
  const isUnsupported = failure.code === INVALID_ADDRESS && !hasAsciiLocalPart(recipient ?? '');
  return isUnsupported ? { ...failure, ...UNSUPPORTED_RECIPIENT } : failure;
}

/** Mailgun itself rejected the mail, before any delivery attempt. */
function rejected({ recipient, reject = {} }: Event): Failure {
  const meaning = { class: 'unknown', code: 'rejected' } as const;
  const text = reject.description || reject.reason;
  return bounceFailure({ text, isHard: false, meaning }, recipient ? [recipient] : []);
}
