import { z } from 'zod';
import type { Failure } from '#core/domain/sending/failure.ts';
import { boundedList, boundedObjects, firstOfList, RawList } from '../bounded-elements.ts';
import { parseJson } from '../classify-error.ts';
import {
  PROVIDER_STATUS_MAX,
  type ParsedReceipt,
  type ReceiptAnswer,
  type ReceiptCall,
  type ReceiptDefinition,
} from '../receipt.ts';
import { redact } from '../redact.ts';
import { GENUINE, hmac, isSame, MISMATCH, MISSING, UNSIGNED } from '../signature.ts';
import { PROVIDER_CODE_MAX, vendorText } from '../vendor-text.ts';
import { WHATSAPP_CODES } from './outcomes.ts';

const SIGNATURE = 'x-hub-signature-256';
const CHALLENGE = /^[A-Za-z0-9_-]{1,128}$/;

const text = z.string().optional().catch(undefined);
const Fault = z.looseObject({
  code: z.union([z.number(), z.string()]).optional().catch(undefined),
  title: text,
  error_data: z.looseObject({ details: text }).optional().catch(undefined),
});
const Status = z.looseObject({
  id: z.string().min(1),
  status: z.string().min(1),
  timestamp: z.coerce.number().int().positive().optional().catch(undefined),
  recipient_id: text,
  biz_opaque_callback_data: text,
  errors: firstOfList(Fault).optional().catch(undefined),
});
type Status = z.output<typeof Status>;
/** Changes of other fields are about calls, templates and the account. */
const Change = z.looseObject({
  field: z.literal('messages'),
  value: z.looseObject({ statuses: RawList }),
});
const Body = z.looseObject({
  object: z.literal('whatsapp_business_account'),
  entry: boundedList(z.looseObject({ changes: RawList })),
});

/** https://developers.facebook.com/docs/whatsapp/cloud-api/webhooks/payload-examples#message-status-updates */
export const whatsappReceipts: ReceiptDefinition<unknown, { readonly appSecret?: string | undefined }> = {
  setup: {
    mode: 'manual',
    steps: [
      'In the App Dashboard of Meta for Developers open WhatsApp > Configuration.',
      'Enter the receipt URL of this provider account as the Callback URL, and the part after its last slash as the Verify token.',
      'Subscribe to the field messages.',
      'Put the app secret (App settings > Basic) into the secret appSecret of this provider account, so that signatures are verified.',
      'An app has one Callback URL: if several numbers have separate provider accounts, override it for each number.',
    ],
  },
  // Meta batches up to a thousand reports in at most three megabytes.
  bytesMax: 3 * 1024 * 1024,
  engagement: ['read'],
  headers: [SIGNATURE],
  answer: { status: 200 },

  handshake(call, token) {
    return challengeOf(call, token);
  },

  verify(call, { secrets: { appSecret } }) {
    // Meta always signs, but accounts created before receipts were supported may lack the secret; then only the URL token
    // authenticates the call.
    if (appSecret === undefined) return UNSIGNED;
    const signature = call.headers[SIGNATURE];
    if (!signature) return MISSING;
    return isSame(signature, `sha256=${hmac('sha256', appSecret, call.body)}`) ? GENUINE : MISMATCH;
  },

  parse(call) {
    const body = Body.safeParse(parseJson(Buffer.from(call.body).toString('utf8')));
    if (!body.success) return { kind: 'unreadable' };
    const changes = boundedObjects(body.data.entry.map((entry) => entry.changes));
    const sent = changes?.map((change) => Change.safeParse(change).data?.value.statuses ?? []);
    const statuses = sent && boundedObjects(sent);
    if (statuses === undefined) return { kind: 'unreadable' };
    const receipts = statuses.flatMap((one) => Status.safeParse(one).data ?? []).map(receiptOf);
    return { kind: 'receipts', receipts };
  },
};

/**
 * Answers Meta's unsigned check that we own the URL. Only a plain word is echoed, so the answer can never be an HTML page.
 */
function challengeOf(
  { method, url }: Pick<ReceiptCall, 'method' | 'url'>,
  token: string,
): ReceiptAnswer | undefined {
  const query = URL.parse(url)?.searchParams;
  const challenge = query?.get('hub.challenge') ?? '';
  const isAsked = method === 'GET' && query?.get('hub.mode') === 'subscribe';
  return isAsked && isSame(query?.get('hub.verify_token') ?? '', token) && CHALLENGE.test(challenge)
    ? { status: 200, contentType: 'text/plain', body: challenge }
    : undefined;
}

function receiptOf(status: Status): ParsedReceipt {
  const { id, status: word, timestamp, biz_opaque_callback_data: reference } = status;
  return {
    ...(reference ? { reference } : {}),
    providerMessageId: id,
    // Each state of a message is reported once; retries of a report are identical.
    eventId: `${id}:${word}`,
    ...(timestamp === undefined ? {} : { at: timestamp * 1_000 }),
    providerStatus: word.slice(0, PROVIDER_STATUS_MAX),
    ...meaningOf(status),
  };
}

function meaningOf(status: Status): Pick<ParsedReceipt, 'state' | 'failure' | 'engagement'> {
  switch (status.status) {
    case 'sent':
      return { state: 'sent' };
    case 'delivered':
      return { state: 'delivered' };
    case 'read':
    // The recipient listened to a voice message.
    case 'played':
      return { state: 'delivered', engagement: 'read' };
    case 'failed':
      return { state: 'undelivered', failure: failureOf(status) };
    default:
      return {};
  }
}

function failureOf({ errors = [], recipient_id: recipient }: Status): Failure {
  const [fault] = errors;
  const code = fault?.code === undefined ? undefined : String(fault.code);
  const known = code !== undefined && Object.hasOwn(WHATSAPP_CODES, code) ? WHATSAPP_CODES[code] : undefined;
  const message = fault?.error_data?.details ?? fault?.title;
  const hidden = recipient ? [recipient] : [];
  return {
    class: known?.class ?? 'unknown',
    code: known?.code ?? 'undelivered',
    ...(code ? { providerCode: vendorText(redact(code, hidden), PROVIDER_CODE_MAX) } : {}),
    ...(message ? { providerMessage: redact(message, hidden) } : {}),
  };
}
