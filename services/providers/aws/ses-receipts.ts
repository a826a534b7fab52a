import { z } from 'zod';
import { bounceFailure } from '../bounce.ts';
import { boundedList, firstOfList } from '../bounded-elements.ts';
import type { ErrorMeaning } from '../classify-error.ts';
import {
  PROVIDER_STATUS_MAX,
  type ParsedCall,
  type ParsedReceipt,
  type ReceiptDefinition,
} from '../receipt.ts';
import { REFERENCE } from './ses-mail.ts';
import { BOUNCES, NOT_RENDERED, REJECTED, COMPLAINED_BEFORE } from './ses-outcomes.ts';
import { judgeEnvelope, parseEnvelope } from './sns-envelope.ts';

const Text = z.string().optional().catch(undefined);
const Part = { timestamp: Text };

/** Events of a configuration set name `eventType`, those of an identity `notificationType`. */
const Event = z.looseObject({
  eventType: Text,
  notificationType: Text,
  mail: z.looseObject({
    messageId: z.string().min(1),
    timestamp: Text,
    tags: z
      .looseObject({ [REFERENCE]: firstOfList(z.string()).optional().catch(undefined) })
      .optional()
      .catch(undefined),
  }),
  bounce: z
    .looseObject({
      ...Part,
      bounceType: Text,
      bounceSubType: Text,
      bouncedRecipients: firstOfList(
        z.looseObject({ action: Text, status: Text, diagnosticCode: Text }),
      ).catch([]),
    })
    .optional()
    .catch(undefined),
  complaint: z
    .looseObject({
      ...Part,
      complaintSubType: z.string().nullish().catch(undefined),
      complaintFeedbackType: z.string().nullish().catch(undefined),
    })
    .optional()
    .catch(undefined),
  reject: z
    .looseObject({ ...Part, reason: Text })
    .optional()
    .catch(undefined),
  failure: z
    .looseObject({ ...Part, errorMessage: Text })
    .optional()
    .catch(undefined),
  subscription: z
    .looseObject({
      ...Part,
      newTopicPreferences: z
        .looseObject({
          unsubscribeAll: z.boolean().optional().catch(undefined),
          topicSubscriptionStatus: boundedList(z.looseObject({ subscriptionStatus: Text })).catch([]),
        })
        .optional()
        .catch(undefined),
    })
    .optional()
    .catch(undefined),
  delivery: z.looseObject(Part).optional().catch(undefined),
  open: z.looseObject(Part).optional().catch(undefined),
  click: z.looseObject(Part).optional().catch(undefined),
});
type Event = z.output<typeof Event>;
type Meaning = Pick<ParsedReceipt, 'state' | 'failure' | 'engagement'>;

export const sesReceipts: ReceiptDefinition<{ readonly topicArn?: string | undefined }, unknown> = {
  setup: {
    mode: 'manual',
    steps: [
      'In the console of Amazon SES, under Configuration sets, create a set and name it in configurationSetName.',
      'In the set, under Event destinations, create one of the type Amazon SNS with the events that you want (sends, deliveries, hard bounces, complaints, rejects, rendering failures, and opens, clicks and subscriptions), and put the ARN of its standard topic into topicArn.',
      'In the console of Amazon SNS, create a subscription of this topic with the protocol HTTPS and the receipt URL of this provider account as its endpoint. Leave raw message delivery off.',
      'The subscription is confirmed by itself.',
    ],
  },
  bytesMax: 1_048_576,
  // The notifications of an identity carry no tags.
  mayLackReference: true,
  engagement: ['opened', 'clicked', 'complained', 'unsubscribed'],
  headers: [],
  verify: (call, { config }, context) => judgeEnvelope(call, config.topicArn, context),
  parse: (call) => parseEnvelope(call, readEvent),
};

function readEvent(sent: unknown, eventId: string): ParsedCall {
  const event = Event.safeParse(sent).data;
  const type = event?.eventType ?? event?.notificationType;
  // SES sends a plain-text greeting to a new topic, and the topic may carry unrelated events.
  if (event === undefined || type === undefined) return { kind: 'receipts', receipts: [] };
  const reference = event.mail.tags?.[REFERENCE]?.[0];
  const at = Date.parse(timeOf(event, type) ?? '');
  const receipt: ParsedReceipt = {
    ...(reference === undefined ? {} : { reference }),
    providerMessageId: event.mail.messageId,
    eventId,
    providerStatus: type.slice(0, PROVIDER_STATUS_MAX),
    ...(Number.isNaN(at) ? {} : { at }),
    ...meaningOf(event, type),
  };
  return { kind: 'receipts', receipts: [receipt] };
}

function meaningOf(event: Event, type: string): Meaning {
  switch (type) {
    case 'Send':
      return { state: 'sent' };
    case 'Delivery':
      return { state: 'delivered' };
    case 'Bounce':
      return bounced(event.bounce);
    case 'Complaint':
      return complained(event.complaint);
    case 'Reject':
      return undelivered(REJECTED, type, event.reject?.reason);
    case 'Rendering Failure':
      return undelivered(NOT_RENDERED, type, event.failure?.errorMessage);
    case 'Open':
      return { engagement: 'opened' };
    case 'Click':
      return { engagement: 'clicked' };
    case 'Subscription':
      return isOptOut(event.subscription) ? { engagement: 'unsubscribed' } : {};
    default:
      return {};
  }
}

/**
 * The feedback type is that of the mail provider's report, of the registered ones
 * (https://www.iana.org/assignments/marf-parameters). Two of them are no complaints: the recipient took the mail out of the spam
 * folder (RFC 6430), or the provider could not authenticate it (RFC 6591).
 */
const NO_COMPLAINTS: ReadonlySet<string> = new Set(['not-spam', 'auth-failure']);

function complained({
  complaintSubType,
  complaintFeedbackType,
}: NonNullable<Event['complaint']> = {}): Meaning {
  // SES did not send this mail; the complaint was about an earlier one.
  if (complaintSubType === 'OnAccountSuppressionList')
    return undelivered(COMPLAINED_BEFORE, 'OnAccountSuppressionList');
  return NO_COMPLAINTS.has(complaintFeedbackType ?? '') ? {} : { engagement: 'complained' };
}

/**
 * SES reports an automatic reply, such as an out-of-office message, as a transient general bounce
 * (https://docs.aws.amazon.com/ses/latest/dg/notification-contents.html, "Bounce types"). Unlike a bounce, it comes without a
 * delivery status notification, which alone has an action, a status and a diagnostic code.
 */
function bounced(bounce: Event['bounce']): Meaning {
  const { bounceType = 'Undetermined', bounceSubType = '', bouncedRecipients = [] } = bounce ?? {};
  const { action, status, diagnosticCode } = bouncedRecipients[0] ?? {};
  const isNotified = [action, status, diagnosticCode].some((part) => part !== undefined);
  if (bounceType === 'Transient' && bounceSubType === 'General' && !isNotified) return {};
  const failure = bounceFailure(
    {
      status,
      text: diagnosticCode,
      isHard: bounceType === 'Permanent',
      providerCode: status ?? `${bounceType} ${bounceSubType}`.trim(),
      meaning: meaningFor(BOUNCES.get(bounceSubType)),
    },
    [],
  );
  return { state: 'undelivered', failure };
}

function undelivered(meaning: ErrorMeaning, code: string, text?: string): Meaning {
  const bounce = { isHard: true, meaning: meaningFor(meaning), providerCode: code, text };
  return { state: 'undelivered', failure: bounceFailure(bounce, []) };
}

/** A failure in a receipt carries no retry decision. */
function meaningFor(meaning: ErrorMeaning | undefined) {
  return meaning && { class: meaning.class, code: meaning.code };
}

function isOptOut(subscription: Event['subscription']): boolean {
  const { unsubscribeAll, topicSubscriptionStatus = [] } = subscription?.newTopicPreferences ?? {};
  return (
    unsubscribeAll === true || topicSubscriptionStatus.some((one) => one.subscriptionStatus === 'OptOut')
  );
}

/** The event's own time; for a send event, the time of the mail. */
function timeOf(event: Event, type: string): string | undefined {
  const { bounce, complaint, delivery, open, click, subscription } = event;
  const part = {
    Bounce: bounce,
    Complaint: complaint,
    Delivery: delivery,
    Open: open,
    Click: click,
    Subscription: subscription,
  };
  return Object.hasOwn(part, type)
    ? part[type as keyof typeof part]?.timestamp
    : type === 'Send'
      ? event.mail.timestamp
      : undefined;
}
