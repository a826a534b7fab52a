import type { Engagement } from '#core/domain/engagement.ts';
import { z } from 'zod';
import type { Failure } from '#core/domain/failure.ts';
import { parseJson } from '../classify-error.ts';
import { PROVIDER_STATUS_MAX, type ParsedReceipt, type ReceiptDefinition } from '../receipt.ts';
import { isFailed, meaningOfStatus, Status } from './answers.ts';
import { DUPLICATE, ERROR_CODES } from './outcomes.ts';

/** Accounts may have as many reports in one call as they like; a hundred is usual. */
const BYTES_MAX = 1024 * 1024;

const About = {
  messageId: z.string().min(1).max(200),
  callbackData: z.string().min(1).max(100).optional().catch(undefined),
};
const ReportedError = z.looseObject({ id: z.int(), name: z.string().catch('') });
/** Of a report, and of a line of the log. */
export const DeliveryReport = z.looseObject({
  ...About,
  status: Status,
  error: ReportedError.optional().catch(undefined),
  doneAt: z.string().optional().catch(undefined),
});
type DeliveryReport = z.output<typeof DeliveryReport>;
const Seen = z.looseObject({ ...About, seenAt: z.string() });
const Call = z.looseObject({ results: z.array(z.unknown()) });

/**
 * Reports carry no signature, so that the token in the URL is what vouches for them,
 * https://www.infobip.com/docs/api/channels/sms/logs-and-status-reports.
 */
function receiptsSetUp(
  steps: readonly string[],
  engagement: readonly Engagement[] = [],
): ReceiptDefinition<unknown, unknown> {
  return {
    setup: { mode: 'automatic', steps },
    bytesMax: BYTES_MAX,
    engagement,
    headers: ['content-type'],

    parse(call) {
      const body = Call.safeParse(parseJson(Buffer.from(call.body).toString('utf8')));
      if (!body.success) return { kind: 'unreadable' };
      return { kind: 'receipts', receipts: body.data.results.flatMap(receiptOf) };
    },
  };
}

export const infobipSmsReceipts = receiptsSetUp([
  'Nothing to configure: each message carries the address of its delivery report.',
]);

export const infobipWhatsappReceipts = receiptsSetUp(
  [
    'Nothing to configure for delivery reports: each message carries their address.',
    'To learn what was read, add a subscription under Developer Tools > Subscriptions Management of the Infobip portal, for the channel WhatsApp and the event Seen, with the receipt URL of this provider as its notification profile.',
  ],
  ['read'],
);

/** Messages of people and clicks have neither a status nor a time at which they were seen. */
function receiptOf(result: unknown): ParsedReceipt[] {
  const report = DeliveryReport.safeParse(result).data;
  if (report !== undefined) return [deliveryReceipt(report)];
  const seen = Seen.safeParse(result).data;
  if (seen === undefined) return [];
  return [
    {
      ...aboutOf(seen),
      eventId: `${seen.messageId}:seen`,
      state: 'delivered',
      engagement: 'read',
      ...timeOf(seen.seenAt),
      providerStatus: 'SEEN',
    },
  ];
}

function deliveryReceipt(report: DeliveryReport): ParsedReceipt {
  return { ...aboutOf(report), ...whatBecameOf(report) };
}

/** What a report, or the log, says of a message. */
export function whatBecameOf(report: DeliveryReport): Omit<ParsedReceipt, 'reference' | 'providerMessageId'> {
  const { messageId, status, error, doneAt } = report;
  return {
    eventId: `${messageId}:${status.id}:${error?.id ?? 0}`,
    ...stateOf(report),
    ...timeOf(doneAt),
    providerStatus: (status.name || String(status.id)).slice(0, PROVIDER_STATUS_MAX),
  };
}

function stateOf({ status, error }: DeliveryReport): Pick<ParsedReceipt, 'state' | 'failure'> {
  // Speaks of a copy that was not taken, under the id of the message that was.
  if (status.id === DUPLICATE) return {};
  if (isFailed(status)) return { state: 'undelivered', failure: failureOf(status, error) };
  switch (status.id) {
    case DELIVERED_TO_OPERATOR:
      return { state: 'sent' };
    case PENDING_ACCEPTED:
      return {};
    default:
      return { state: isDelivered(status) ? 'delivered' : 'sent' };
  }
}

const DELIVERED_TO_OPERATOR = 2;
const PENDING_ACCEPTED = 26;
const DELIVERED = 3;

function isDelivered({ groupId, groupName }: Status): boolean {
  return groupId === undefined ? groupName === 'DELIVERED' : groupId === DELIVERED;
}

/** The error says more than the status, where there is one. */
function failureOf(status: Status, error: z.output<typeof ReportedError> | undefined): Failure {
  const hasError = error !== undefined && error.id !== 0;
  const meaning = (hasError ? ERROR_CODES[String(error.id)] : undefined) ?? meaningOfStatus(status);
  const name = hasError && error.name !== '' ? error.name : status.name;
  return {
    class: meaning.class,
    code: meaning.code,
    providerCode: String(hasError ? error.id : status.id),
    // A name of Infobip's own, and not its description, which could repeat a number.
    ...(/^\w{1,100}$/.test(name) ? { providerMessage: name } : {}),
  };
}

function aboutOf({
  messageId,
  callbackData,
}: {
  readonly messageId: string;
  readonly callbackData?: string | undefined;
}): Pick<ParsedReceipt, 'reference' | 'providerMessageId'> {
  return { ...(callbackData === undefined ? {} : { reference: callbackData }), providerMessageId: messageId };
}

/** Infobip writes the zone without a colon. */
function timeOf(text: string | undefined): { readonly at?: number } {
  const at = Date.parse((text ?? '').replace(/([+-]\d{2})(\d{2})$/, '$1:$2'));
  return Number.isNaN(at) ? {} : { at };
}
