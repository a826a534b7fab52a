import type { Engagement } from '#core/domain/receipts/engagement.ts';
import { z } from 'zod';
import type { Failure } from '#core/domain/sending/failure.ts';
import { boundedObjects, RawList } from '../bounded-elements.ts';
import { parseJson } from '../classify-error.ts';
import { PROVIDER_STATUS_MAX, type ParsedReceipt, type ReceiptDefinition } from '../receipt.ts';
import { isFailed, meaningOfStatus, Status } from './answers.ts';
import { DUPLICATE, ERROR_CODES } from './outcomes.ts';
import { ownIdOf } from './own-id.ts';

/** Accounts can configure any number of reports per call; a hundred is usual. */
const BYTES_MAX = 1024 * 1024;

const About = {
  messageId: z.string().min(1).max(200),
  callbackData: z.string().min(1).max(100).optional().catch(undefined),
};
const ReportedError = z.looseObject({ id: z.int(), name: z.string().catch('') });
/** The common format of a report and of a line in the log. */
export const DeliveryReport = z.looseObject({
  ...About,
  status: Status,
  error: ReportedError.optional().catch(undefined),
  doneAt: z.string().optional().catch(undefined),
});
type DeliveryReport = z.output<typeof DeliveryReport>;
const Seen = z.looseObject({ ...About, seenAt: z.string() });
const Call = z.looseObject({ results: RawList });

/**
 * Reports are unsigned, so the token in the URL authenticates them,
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
      const results = body.success ? boundedObjects([body.data.results]) : undefined;
      if (results === undefined) return { kind: 'unreadable' };
      return { kind: 'receipts', receipts: results.flatMap(receiptOf) };
    },
  };
}

export const infobipSmsReceipts = receiptsSetUp([
  'Nothing to configure: each message carries the address of its delivery report.',
]);

export const infobipWhatsappReceipts = receiptsSetUp(
  [
    'Nothing to configure for delivery reports: each message carries their address.',
    'To learn what was read, add a subscription under Developer Tools > Subscriptions Management of the Infobip portal, for the channel WhatsApp and the event Seen, with the receipt URL of this provider account as its notification profile.',
  ],
  ['read'],
);

/** Inbound messages and clicks have neither a status nor a `seenAt` time. */
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

/** Reads the state of a message from a report or a log line. */
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
  // This is about a refused duplicate, under the id of the message that was accepted.
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

/** Where there is an error, it is more specific than the status. */
function failureOf(status: Status, error: z.output<typeof ReportedError> | undefined): Failure {
  const hasError = error !== undefined && error.id !== 0;
  const meaning = (hasError ? ERROR_CODES[String(error.id)] : undefined) ?? meaningOfStatus(status);
  const name = hasError && error.name !== '' ? error.name : status.name;
  return {
    class: meaning.class,
    code: meaning.code,
    providerCode: String(hasError ? error.id : status.id),
    // Keeps Infobip's error name and drops its description, which could repeat a phone number.
    ...(/^\w{1,100}$/.test(name) ? { providerMessage: name } : {}),
  };
}

/** Reports of what was seen repeat no callback data, but every message has our own id at Infobip. */
function aboutOf({
  messageId,
  callbackData,
}: {
  readonly messageId: string;
  readonly callbackData?: string | undefined;
}): Pick<ParsedReceipt, 'reference' | 'providerMessageId'> {
  return { reference: callbackData ?? ownIdOf(messageId), providerMessageId: messageId };
}

/** Infobip writes the time zone without a colon. */
function timeOf(text: string | undefined): { readonly at?: number } {
  const at = Date.parse((text ?? '').replace(/([+-]\d{2})(\d{2})$/, '$1:$2'));
  return Number.isNaN(at) ? {} : { at };
}
