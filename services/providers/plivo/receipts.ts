import type { Failure } from '#core/domain/sending/failure.ts';
import { boundedParameters } from '../bounded-parameters.ts';
import { referenceOf } from '../callback-reference.ts';
import {
  PROVIDER_STATUS_MAX,
  type ParsedReceipt,
  type ReceiptCall,
  type ReceiptDefinition,
  type ReceiptVerdict,
} from '../receipt.ts';
import { GENUINE, hmac, isSame, MISMATCH, MISSING } from '../signature.ts';
import { sortedParameters } from '../sorted-parameters.ts';
import { PROVIDER_CODE_MAX, vendorText } from '../vendor-text.ts';
import { PLIVO_CODES } from './outcomes.ts';

/** https://www.plivo.com/docs/messaging/api/message/message-status-callbacks */
export const plivoReceipts: ReceiptDefinition<unknown, { readonly authToken: string }> = {
  setup: {
    mode: 'automatic',
    steps: ['Nothing to configure: each message carries its own callback address.'],
  },
  headers: [
    'content-type',
    'x-plivo-signature-v3',
    'x-plivo-signature-ma-v3',
    'x-plivo-signature-v3-nonce',
    'x-plivo-signature-v2',
    'x-plivo-signature-ma-v2',
    'x-plivo-signature-v2-nonce',
  ],

  /** V2 covers neither query nor body, so it is accepted only when there is no V3 signature. */
  verify(call, { secrets }) {
    const third = signaturesOf(call, 'v3');
    if (third.length > 0) {
      const signed = addressAndForm(call);
      if (signed === undefined) return MISMATCH;
      return judged(third, `${signed}.`, nonceOf(call, 'v3'), secrets.authToken);
    }
    const second = signaturesOf(call, 'v2');
    if (second.length === 0) return MISSING;
    return judged(second, addressOf(call.url), nonceOf(call, 'v2'), secrets.authToken);
  },

  parse(call) {
    const form = formOf(call);
    if (form === undefined) return { kind: 'unreadable' };
    const uuid = form.get('MessageUUID');
    const providerStatus = form.get('Status');
    if (!uuid) return { kind: 'unreadable' };
    // Inbound messages have no status.
    if (!providerStatus) return { kind: 'receipts', receipts: [] };
    return {
      kind: 'receipts',
      receipts: [
        {
          ...referenceOf(call.url),
          ...identityOf(uuid, form.get('ParentMessageUUID')),
          // Plivo reports each state of a message once; retries of a report are identical.
          eventId: `${uuid}:${providerStatus}`,
          providerStatus: providerStatus.slice(0, PROVIDER_STATUS_MAX),
          ...meaningOf(providerStatus, form.get('ErrorCode')),
        },
      ],
    };
  },
};

/** Parts of a long message used to have their own ids and may have them again; the send response named the parent's id. */
function identityOf(
  uuid: string,
  parent: string | null,
): Pick<ParsedReceipt, 'providerMessageId' | 'segment'> {
  return parent && parent !== uuid
    ? { providerMessageId: parent, segment: uuid }
    : { providerMessageId: uuid };
}

/**
 * Plivo signs with the token of the account or subaccount and with that of the main account, one signature per valid token.
 */
function signaturesOf({ headers }: ReceiptCall, version: 'v2' | 'v3'): string[] {
  return [headers[`x-plivo-signature-${version}`], headers[`x-plivo-signature-ma-${version}`]].flatMap(
    (header) => header?.split(',').map((one) => one.trim()) ?? [],
  );
}

function nonceOf({ headers }: ReceiptCall, version: 'v2' | 'v3'): string | undefined {
  return headers[`x-plivo-signature-${version}-nonce`];
}

function judged(
  signatures: readonly string[],
  signed: string,
  nonce: string | undefined,
  authToken: string,
): ReceiptVerdict {
  if (nonce === undefined) return MISSING;
  const expected = hmac('sha256', authToken, signed + nonce, 'base64');
  return signatures.some((one) => isSame(one, expected)) ? GENUINE : MISMATCH;
}

/** Returns scheme, host, port and path. */
function addressOf(url: string): string {
  return url.split('?', 1)[0] ?? url;
}

/**
 * Joins the address, the query parameters and the body parameters, decoded and sorted, as Plivo's own libraries do.
 * Undefined if there are too many parameters.
 */
function addressAndForm(call: ReceiptCall): string | undefined {
  const address = addressOf(call.url);
  const ofQuery = boundedParameters(call.url.slice(address.length));
  const ofForm = call.method === 'POST' ? formOf(call) : new URLSearchParams();
  if (ofQuery === undefined || ofForm === undefined) return undefined;
  const query = ordered(ofQuery, '=').join('&');
  const form = ordered(ofForm, '').join('');
  if (query === '' && form === '') return address;
  return `${address}?${query}${query !== '' && form !== '' ? '.' : ''}${form}`;
}

function ordered(parameters: URLSearchParams, between: string): string[] {
  return sortedParameters(parameters).flatMap(([name, values]) =>
    values.map((value) => name + between + value),
  );
}

function formOf({ body }: ReceiptCall): URLSearchParams | undefined {
  return boundedParameters(Buffer.from(body).toString('utf8'));
}

/** Returns the meaning of a Plivo message state. */
export function meaningOf(
  status: string,
  errorCode: string | null,
): Pick<ParsedReceipt, 'state' | 'failure'> {
  switch (status) {
    case 'sent':
    case 'delivered':
      return { state: status };
    case 'undelivered':
    case 'failed':
    case 'rejected':
      return { state: 'undelivered', failure: failureOf(errorCode) };
    default:
      return {};
  }
}

function failureOf(errorCode: string | null): Failure {
  const known =
    errorCode !== null && Object.hasOwn(PLIVO_CODES, errorCode) ? PLIVO_CODES[errorCode] : undefined;
  const code = errorCode ? { providerCode: vendorText(errorCode, PROVIDER_CODE_MAX) } : {};
  return { class: known?.class ?? 'unknown', code: known?.code ?? 'undelivered', ...code };
}
