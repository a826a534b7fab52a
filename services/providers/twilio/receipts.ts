import type { Failure } from '#core/domain/sending/failure.ts';
import { boundedParameters } from '../bounded-parameters.ts';
import {
  PROVIDER_STATUS_MAX,
  type ParsedReceipt,
  type ReceiptCall,
  type ReceiptDefinition,
} from '../receipt.ts';
import { GENUINE, hmac, isSame, MISMATCH, MISSING } from '../signature.ts';
import { sortedParameters } from '../sorted-parameters.ts';
import { PROVIDER_CODE_MAX, vendorText } from '../vendor-text.ts';
import { TWILIO_CODES } from './outcomes.ts';

/** The query parameter of the callback URL that carries the message's id; the signature covers it. */
const REFERENCE = 'mid';

/** https://www.twilio.com/docs/messaging/guides/track-outbound-message-status */
export const twilioReceipts: ReceiptDefinition<unknown, { readonly authToken: string }> = {
  setup: {
    mode: 'automatic',
    steps: ['Nothing to configure: each message carries its own StatusCallback address.'],
  },
  engagement: ['read'],
  headers: ['content-type', 'x-twilio-signature'],
  // Twilio treats an answer without TwiML as a fault and shows it in the customer's debugger.
  answer: { status: 200, contentType: 'text/xml', body: '<Response/>' },

  verify(call, { secrets }) {
    const signature = call.headers['x-twilio-signature'];
    if (signature === undefined) return MISSING;
    const form = formOf(call);
    if (form === undefined) return MISMATCH;
    const parameters = signedParameters(form);
    const isSigned = spellingsOf(call.url).some((url) =>
      isSame(signature, hmac('sha1', secrets.authToken, url + parameters, 'base64')),
    );
    return isSigned ? GENUINE : MISMATCH;
  },

  parse(call) {
    const form = formOf(call);
    if (form === undefined) return { kind: 'unreadable' };
    const providerMessageId = form.get('MessageSid') ?? form.get('SmsSid');
    const providerStatus = form.get('MessageStatus') ?? form.get('SmsStatus');
    if (!providerMessageId || !providerStatus) return { kind: 'unreadable' };
    const reference = URL.parse(call.url)?.searchParams.get(REFERENCE);
    return {
      kind: 'receipts',
      receipts: [
        {
          ...(reference ? { reference } : {}),
          providerMessageId,
          // Twilio reports each state of a message once; retries of a report are identical.
          eventId: `${providerMessageId}:${providerStatus}`,
          providerStatus: providerStatus.slice(0, PROVIDER_STATUS_MAX),
          ...meaningOf(providerStatus, form.get('ErrorCode')),
        },
      ],
    };
  },
};

/** Returns the callback URL for Twilio's reports on the message. */
export function statusCallback(receiptUrl: string, messageId: string): string {
  return `${receiptUrl}?${REFERENCE}=${messageId}`;
}

function formOf({ method, url, body }: ReceiptCall): URLSearchParams | undefined {
  return boundedParameters(
    method === 'GET' ? (URL.parse(url)?.search ?? '') : Buffer.from(body).toString('utf8'),
  );
}

/** Concatenates the names in order, with each distinct value of a repeated name once and in order, without separators. */
function signedParameters(form: URLSearchParams): string {
  return sortedParameters(form)
    .flatMap(([name, values]) => [...new Set(values)].map((value) => name + value))
    .join('');
}

/** Twilio signs the URL sometimes with the port of its scheme and sometimes without. */
function spellingsOf(url: string): string[] {
  const parts = /^(https?):\/\/([^/?#:]+)(:\d+)?(.*)$/s.exec(url);
  if (parts === null) return [url];
  const [, scheme, host, port, rest] = parts;
  const usual = scheme === 'https' ? ':443' : ':80';
  if (port !== undefined && port !== usual) return [url];
  return [`${scheme}://${host}${rest}`, `${scheme}://${host}${usual}${rest}`];
}

/** Returns the meaning of a Twilio message state. */
export function meaningOf(
  status: string,
  errorCode: string | null,
): Pick<ParsedReceipt, 'state' | 'isTemporary' | 'failure' | 'engagement'> {
  switch (status) {
    case 'sent':
      return { state: 'sent' };
    case 'delivered':
    case 'partially_delivered':
      return { state: 'delivered' };
    case 'read':
      return { state: 'delivered', engagement: 'read' };
    case 'undelivered':
    case 'failed':
    case 'canceled':
      return { state: 'undelivered', failure: failureOf(errorCode) };
    default:
      return {};
  }
}

function failureOf(errorCode: string | null): Failure {
  const known = errorCode === null ? undefined : TWILIO_CODES[errorCode];
  const code = errorCode ? { providerCode: vendorText(errorCode, PROVIDER_CODE_MAX) } : {};
  return { class: known?.class ?? 'unknown', code: known?.code ?? 'undelivered', ...code };
}
