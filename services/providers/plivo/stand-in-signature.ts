import { createHmac } from 'node:crypto';
import type { ReceiptCall } from '../receipt.ts';
import type { SigningAccount } from '../stand-in.ts';

const NONCE = '05429567804466091622';

const signature = (text: string, token: unknown) =>
  createHmac('sha256', String(token)).update(text).digest('base64');

/** Signs like Plivo's `validateV3Signature`: address, sorted query, a dot, sorted names and values, a dot, the nonce. */
export function signPlivoCall(call: ReceiptCall, { secretConfig }: SigningAccount): ReceiptCall {
  const url = new URL(call.url);
  const query = [...url.searchParams].map(([name, value]) => `${name}=${value}`).toSorted();
  const form = [...new URLSearchParams(Buffer.from(call.body).toString())]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => name + value);
  const dot = query.length > 0 ? '.' : '';
  const text = `${url.origin}${url.pathname}?${query.join('&')}${dot}${form.join('')}.${NONCE}`;
  return {
    ...call,
    headers: {
      ...call.headers,
      'x-plivo-signature-v3': signature(text, secretConfig['authToken']),
      'x-plivo-signature-v3-nonce': NONCE,
    },
  };
}

/** https://www.plivo.com/docs/messaging/concepts/signature-validation */
export function signPlivoAddress(call: ReceiptCall, { secretConfig }: SigningAccount): ReceiptCall {
  const url = new URL(call.url);
  return {
    ...call,
    headers: {
      ...call.headers,
      'x-plivo-signature-v2': signature(url.origin + url.pathname + NONCE, secretConfig['authToken']),
      'x-plivo-signature-v2-nonce': NONCE,
    },
  };
}
