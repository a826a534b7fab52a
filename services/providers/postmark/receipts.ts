import { z } from 'zod';
import { bounceFailure } from '../bounce.ts';
import { parseJson } from '../classify-error.ts';
import { PROVIDER_STATUS_MAX, type ParsedReceipt, type ReceiptDefinition } from '../receipt.ts';
import { BOUNCES } from './bounces.ts';
import { REFERENCE } from './payload.ts';

/** Postmark's placeholder id in a call that is not about a mail, such as a recipient suppressed by hand. */
const NO_MESSAGE = '00000000-0000-0000-0000-000000000000';

const text = z.string().optional().catch(undefined);
const Report = z.looseObject({
  RecordType: z.string().min(1),
  MessageID: text,
  Metadata: z
    .looseObject({ [REFERENCE]: text })
    .optional()
    .catch(undefined),
  Type: text,
  Email: text,
  Details: text,
  Description: text,
  Recipient: text,
  SuppressSending: z.boolean().optional().catch(undefined),
  SuppressionReason: text,
  DeliveredAt: text,
  BouncedAt: text,
  ReceivedAt: text,
  ChangedAt: text,
});
type Report = z.output<typeof Report>;

/** https://postmarkapp.com/developer/webhooks/webhooks-overview */
export const postmarkReceipts: ReceiptDefinition<unknown, unknown> = {
  setup: {
    mode: 'manual',
    steps: [
      'In Postmark open Servers, your server, the message stream of this provider account, then Webhooks, and add a webhook.',
      'Enter the receipt URL of this provider account as the Webhook URL. Basic authentication is not needed: the URL itself is the secret.',
      'Choose Delivery, Bounce, Spam Complaint and Subscription Change, and leave "Include message content" off.',
      'For engagement choose Open and Link Click too, and switch on open and link tracking in the settings of the stream.',
    ],
  },
  // A bounce may include the text of the mail.
  bytesMax: 1024 * 1024,
  engagement: ['opened', 'clicked', 'complained', 'unsubscribed'],
  headers: [],
  // Postmark treats any other status as a failure and retries.
  answer: { status: 200 },

  parse(call) {
    const parsed = Report.safeParse(parseJson(Buffer.from(call.body).toString('utf8')));
    if (!parsed.success) return { kind: 'unreadable' };
    return { kind: 'receipts', receipts: receiptsOf(parsed.data) };
  },
};

function receiptsOf(report: Report): ParsedReceipt[] {
  if (report.RecordType === 'Inbound') return [];
  const reference = report.Metadata?.[REFERENCE];
  const providerMessageId = report.MessageID === NO_MESSAGE ? undefined : report.MessageID;
  if (!reference && !providerMessageId) return [];
  const at = Date.parse(
    report.DeliveredAt ?? report.BouncedAt ?? report.ReceivedAt ?? report.ChangedAt ?? '',
  );
  // Postmark has ids of its own for bounces only, and they exceed the safe integer range: a hash of the report identifies
  // it.
  return [
    {
      ...(reference ? { reference } : {}),
      ...(providerMessageId ? { providerMessageId } : {}),
      ...(Number.isNaN(at) ? {} : { at }),
      providerStatus: wordOf(report).slice(0, PROVIDER_STATUS_MAX),
      ...meaningOf(report),
    },
  ];
}

function wordOf({ RecordType, Type, SuppressionReason }: Report): string {
  const detail = RecordType === 'SubscriptionChange' ? SuppressionReason : Type;
  return detail && detail !== RecordType ? `${RecordType}:${detail}` : RecordType;
}

function meaningOf(report: Report): Pick<ParsedReceipt, 'state' | 'failure' | 'engagement'> {
  switch (report.RecordType) {
    case 'Delivery':
      return { state: 'delivered' };
    case 'Bounce':
      return bounced(report);
    case 'SpamComplaint':
      return { engagement: 'complained' };
    case 'Open':
      return { engagement: 'opened' };
    case 'Click':
      return { engagement: 'clicked' };
    case 'SubscriptionChange':
      // Bounces and complaints also change the subscription and have already been reported as such.
      return report.SuppressSending === true && report.SuppressionReason === 'ManualSuppression'
        ? { engagement: 'unsubscribed' }
        : {};
    default:
      return {};
  }
}

function bounced({
  Type,
  Email,
  Details,
  Description,
}: Report): Pick<ParsedReceipt, 'state' | 'failure' | 'engagement'> {
  const bounce = Type === undefined ? undefined : BOUNCES.get(Type);
  if (bounce === undefined) return {};
  if (bounce.kind === 'engaged') return { engagement: bounce.engagement };
  const failure = bounceFailure(
    { ...bounce, text: Details || Description, providerCode: Type },
    Email ? [Email] : [],
  );
  return { state: 'undelivered', failure };
}
