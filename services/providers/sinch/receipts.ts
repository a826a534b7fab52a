import { z } from 'zod';
import type { Failure } from '#core/domain/sending/failure.ts';
import { boundedList } from '../bounded-elements.ts';
import { parseJson } from '../classify-error.ts';
import {
  PROVIDER_STATUS_MAX,
  type ParsedCall,
  type ParsedReceipt,
  type ReceiptDefinition,
} from '../receipt.ts';
import { GENUINE, hmac, isSame, isTimely, MISMATCH, MISSING, UNSIGNED, UNTIMELY } from '../signature.ts';
import { SINCH_CODES, SINCH_STATUSES } from './outcomes.ts';

const SIGNATURE = 'x-sinch-webhook-signature';
const NONCE = 'x-sinch-webhook-signature-nonce';
const TIMESTAMP = 'x-sinch-webhook-signature-timestamp';
const TIMESTAMP_S = /^\d{1,12}$/;

const Status = z.looseObject({ status: z.string().min(1), code: z.number().optional().catch(undefined) });
type Status = z.output<typeof Status>;
const Report = z.looseObject({
  batch_id: z.string().min(1),
  client_reference: z.string().min(1).optional().catch(undefined),
  at: z.string().optional().catch(undefined),
});
type Report = z.output<typeof Report>;
const OfRecipient = Report.extend(Status.shape);
const OfBatch = Report.extend({ statuses: boundedList(Status) });
const Callback = z.looseObject({ type: z.string().min(1) });

/** https://developers.sinch.com/docs/sms/api-reference/sms/tag/Webhooks */
export const sinchReceipts: ReceiptDefinition<unknown, { readonly webhookSecret?: string | undefined }> = {
  setup: {
    mode: 'automatic',
    steps: [
      'Nothing to configure: each message carries its own callback address.',
      'Sinch signs callbacks only if your account manager at Sinch has enabled it for the service plan; then enter the secret as webhookSecret.',
    ],
  },
  headers: [SIGNATURE, NONCE, TIMESTAMP],

  verify(call, { secrets: { webhookSecret } }) {
    // Sinch signs only when the customer enables it. Without a secret, the token in the URL authenticates the call.
    if (webhookSecret === undefined) return UNSIGNED;
    const { [SIGNATURE]: signature, [NONCE]: nonce, [TIMESTAMP]: timestamp } = call.headers;
    if (signature === undefined || nonce === undefined || timestamp === undefined) return MISSING;
    const signed = Buffer.concat([call.body, Buffer.from(`.${nonce}.${timestamp}`)]);
    if (!isSame(signature, hmac('sha256', webhookSecret, signed, 'base64'))) return MISMATCH;
    const isRecent = TIMESTAMP_S.test(timestamp) && isTimely(Number(timestamp) * 1_000, call.receivedAt);
    return isRecent ? GENUINE : UNTIMELY;
  },

  parse(call): ParsedCall {
    const body = parseJson(Buffer.from(call.body).toString('utf8'));
    const type = Callback.safeParse(body).data?.type;
    if (type === undefined) return { kind: 'unreadable' };
    if (type === 'recipient_delivery_report_sms') {
      const report = OfRecipient.safeParse(body).data;
      return report === undefined ? { kind: 'unreadable' } : receipts(report, [report]);
    }
    if (type === 'delivery_report_sms') {
      const report = OfBatch.safeParse(body).data;
      return report === undefined ? { kind: 'unreadable' } : receipts(report, report.statuses);
    }
    // Inbound messages, among others.
    return { kind: 'receipts', receipts: [] };
  },
};

function receipts(report: Report, statuses: readonly Status[]): ParsedCall {
  return { kind: 'receipts', receipts: statuses.map((status) => receipt(report, status)) };
}

function receipt(report: Report, { status, code }: Status): ParsedReceipt {
  const at = Date.parse(report.at ?? '');
  return {
    ...(report.client_reference === undefined ? {} : { reference: report.client_reference }),
    providerMessageId: report.batch_id,
    // Sinch's callbacks have no id. Each batch has one recipient, who enters each state once.
    eventId: `${report.batch_id}:${status}:${code ?? ''}`,
    providerStatus: status.slice(0, PROVIDER_STATUS_MAX),
    ...(Number.isNaN(at) ? {} : { at }),
    ...meaningOf(status, code),
  };
}

/** Returns the meaning of a Sinch message state. */
export function meaningOf(
  status: string,
  code: number | undefined,
): Pick<ParsedReceipt, 'state' | 'failure'> {
  switch (status) {
    case 'Dispatched':
    // The operator has the message, and no further report will come.
    case 'Unknown':
      return { state: 'sent' };
    case 'Delivered':
      return { state: 'delivered' };
    case 'Failed':
    case 'Rejected':
    case 'Deleted':
    case 'Expired':
    case 'Aborted':
    case 'Cancelled':
      return { state: 'undelivered', failure: failureOf(status, code) };
    default:
      return {};
  }
}

function failureOf(status: string, code: number | undefined): Failure {
  const known = (code === undefined ? undefined : SINCH_CODES[code]) ?? SINCH_STATUSES[status];
  return {
    class: known?.class ?? 'unknown',
    code: known?.code ?? 'undelivered',
    ...(code === undefined ? {} : { providerCode: String(code) }),
  };
}
