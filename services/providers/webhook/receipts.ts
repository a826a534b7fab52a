import { ENGAGEMENTS } from '#core/domain/receipts/engagement.ts';
import { z } from 'zod';
import { RECEIPT_KINDS } from '#core/domain/sending/outcome.ts';
import { boundedObjects } from '../bounded-elements.ts';
import { parseJson } from '../classify-error.ts';
import {
  PROVIDER_STATUS_MAX,
  type ParsedCall,
  type ParsedReceipt,
  type ReceiptDefinition,
} from '../receipt.ts';
import { signingKey, type Account } from './account.ts';
import { Reported, reportedFailure } from './outcomes.ts';
import { judgeSignature, SIGNED_HEADERS } from '../standard-webhook.ts';

const BYTES_MAX = 1_048_576;
const REPORTS_MAX = 1_000;

/**
 * One report of a gateway; `services/api/docs/guides/own-gateway.md` documents it for gateway authors. As elsewhere,
 * `message_id` is accepted for `messageId`; no other field name has two words.
 */
const Report = z.preprocess(
  withMessageId,
  z
    .looseObject({
      messageId: z.uuid(),
      id: z.string().min(1).max(255).optional(),
      status: z.enum(RECEIPT_KINDS).optional(),
      temporary: z.boolean().optional(),
      failure: Reported.optional().catch(undefined),
      engagement: z.enum(ENGAGEMENTS).optional(),
      at: z.iso.datetime({ offset: true }).optional().catch(undefined),
    })
    .refine((report) => report.status !== undefined || report.engagement !== undefined),
);

function withMessageId(sent: unknown): unknown {
  const isOther = typeof sent === 'object' && sent !== null && 'message_id' in sent && !('messageId' in sent);
  return isOther ? { ...sent, messageId: sent.message_id } : sent;
}

export const gatewayReceipts: ReceiptDefinition<unknown, Account['secrets']> = {
  // Each message carries the receipt URL, but whether a gateway reports is up to its authors.
  setup: {
    mode: 'manual',
    steps: [
      'Have your gateway post its reports to the receiptUrl that each message carries, as JSON, signed by Standard Webhooks with the secret in signingSecret.',
      'The guide “Your own gateway” in the API documentation describes the format.',
    ],
  },
  bytesMax: BYTES_MAX,
  engagement: ENGAGEMENTS,
  headers: SIGNED_HEADERS,

  verify: (call, { secrets }) => judgeSignature(call, signingKey(secrets)),

  parse(call): ParsedCall {
    const sent = parseJson(Buffer.from(call.body).toString('utf8'));
    const reports = Array.isArray(sent) ? (sent as unknown[]) : [sent];
    // An unreadable report is skipped; the others of the call still count.
    const receipts = boundedObjects([reports], REPORTS_MAX)?.flatMap((one) => {
      const report = Report.safeParse(one);
      return report.success ? [receiptOf(report.data)] : [];
    });
    if (receipts === undefined) return { kind: 'unreadable' };
    const isFormat = receipts.length > 0 || reports.length === 0;
    return isFormat ? { kind: 'receipts', receipts } : { kind: 'unreadable' };
  },
};

function receiptOf(report: z.output<typeof Report>): ParsedReceipt {
  const { messageId, id, status, temporary, failure, engagement, at } = report;
  return {
    reference: messageId,
    ...(id === undefined ? {} : { eventId: id }),
    ...(status === undefined ? {} : { state: status }),
    ...(status === 'undelivered'
      ? { failure: reportedFailure(failure), ...(temporary === true ? { isTemporary: true } : {}) }
      : {}),
    ...(engagement === undefined ? {} : { engagement }),
    ...(at === undefined ? {} : { at: Date.parse(at) }),
    providerStatus: (status ?? engagement ?? '').slice(0, PROVIDER_STATUS_MAX),
  };
}
