import { hmac, isSame, isTimely, GENUINE, MISMATCH, MISSING, UNTIMELY } from './signature.ts';
import type { ReceiptCall, ReceiptVerdict } from './receipt.ts';

/** Maximum number of signatures in a header: during secret rotation a call may carry one for each secret. */
const SIGNATURES_MAX = 10;

/** Headers for id, timestamp and signature. */
export const SIGNED_HEADERS = ['webhook-id', 'webhook-timestamp', 'webhook-signature'];
/** The same headers under Svix's names, which predate the standard. */
export const SVIX_HEADERS = ['svix-id', 'svix-timestamp', 'svix-signature'];

/**
 * Returns the headers of a call signed by the symmetric scheme of Standard Webhooks, https://www.standardwebhooks.com.
 * @param id equal for each repetition of the call.
 * @param now milliseconds since the epoch.
 */
export function signedHeaders(id: string, now: number, body: string, key: Buffer): Record<string, string> {
  const timestamp = String(Math.floor(now / 1_000));
  return {
    'webhook-id': id,
    'webhook-timestamp': timestamp,
    'webhook-signature': signatureOf(id, timestamp, Buffer.from(body), key),
  };
}

export function judgeSignature(
  { headers, body, receivedAt }: ReceiptCall,
  key: Buffer,
  names: readonly string[] = SIGNED_HEADERS,
): ReceiptVerdict {
  const [id, timestamp, signatures] = names.map((name) => headers[name]);
  if (!id || !timestamp || !signatures) return MISSING;
  const expected = signatureOf(id, timestamp, body, key);
  const given = signatures.split(' ', SIGNATURES_MAX);
  if (!given.some((one) => isSame(one, expected))) return MISMATCH;
  return /^\d{1,12}$/.test(timestamp) && isTimely(Number(timestamp) * 1_000, receivedAt) ? GENUINE : UNTIMELY;
}

function signatureOf(id: string, timestamp: string, body: Uint8Array, key: Buffer): string {
  return `v1,${hmac('sha256', key, Buffer.concat([Buffer.from(`${id}.${timestamp}.`), body]), 'base64')}`;
}
