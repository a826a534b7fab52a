import { createHash } from 'node:crypto';
import { jwtVerify, type JWTPayload } from 'jose';
import { HOUR_MS } from '#core/domain/text/duration.ts';
import { TIMESTAMP_TOLERANCE_MS, type ReceiptCall, type ReceiptVerdict } from '../receipt.ts';
import { GENUINE, hmac, isSame, isTimely, MISMATCH, MISSING, UNTIMELY } from '../signature.ts';
import type { SignatureMethod } from './account.ts';
import { parametersOf, type Parameters } from './receipt-parameters.ts';

/**
 * Vonage retries a receipt of the Messages API for 24 hours (Vonage Support, How long does Vonage retry inbound messages) and one
 * of the SMS API for 72 (Vonage Support, HTTP session time-out limits), and does not document whether each try has a new
 * signature. A replay within that time has the same event id and counts once.
 */
const TRIED_AGAIN_MS = { messages: 25 * HOUR_MS, sms: 73 * HOUR_MS } as const;

/** Verifies a call: the Messages API signs with a token in a header, the SMS API with one of the parameters. */
export async function verifySignature(
  call: ReceiptCall,
  signatureSecret: string,
  method: SignatureMethod | undefined,
): Promise<ReceiptVerdict> {
  const token = /^Bearer (.+)$/is.exec(call.headers['authorization'] ?? '')?.[1];
  if (token !== undefined) return verifyToken(token, call, signatureSecret);
  const parameters = parametersOf(call);
  const signature = parameters.get('sig');
  if (signature === undefined || method === undefined) return MISSING;
  const expected = signatureOf(parameters, signatureSecret, method);
  if (!isSame(signature.toLowerCase(), expected)) return MISMATCH;
  const signedAt = Number(parameters.get('timestamp') || Number.NaN) * 1_000;
  return isTimely(signedAt, call.receivedAt, TRIED_AGAIN_MS.sms) ? GENUINE : UNTIMELY;
}

/** https://developer.vonage.com/en/getting-started/concepts/webhooks#decoding-signed-webhooks */
async function verifyToken(
  token: string,
  { body, receivedAt }: ReceiptCall,
  signatureSecret: string,
): Promise<ReceiptVerdict> {
  const claims = await claimsOf(token, signatureSecret, receivedAt);
  const hash = claims?.['payload_hash'];
  const expected = createHash('sha256').update(body).digest('hex');
  if (claims === undefined || typeof hash !== 'string' || !isSame(hash.toLowerCase(), expected))
    return MISMATCH;
  const signedAt = (claims.iat ?? Number.NaN) * 1_000;
  return isTimely(signedAt, receivedAt, TRIED_AGAIN_MS.messages) ? GENUINE : UNTIMELY;
}

/** Returns undefined when the token is not signed with the secret or uses another signing method. */
async function claimsOf(
  token: string,
  signatureSecret: string,
  receivedAt: number,
): Promise<JWTPayload | undefined> {
  try {
    const key = new TextEncoder().encode(signatureSecret);
    const { payload } = await jwtVerify(token, key, {
      algorithms: ['HS256'],
      currentDate: new Date(receivedAt),
      clockTolerance: TIMESTAMP_TOLERANCE_MS / 1_000,
    });
    return payload;
  } catch {
    return undefined;
  }
}

/** https://developer.vonage.com/en/getting-started/concepts/signing-messages */
function signatureOf(parameters: Parameters, secret: string, method: SignatureMethod): string {
  const text = [...parameters]
    .filter(([name]) => name !== 'sig')
    .toSorted(([one], [other]) => (one < other ? -1 : 1))
    .map(([name, value]) => `&${name}=${value.replaceAll(/[&=]/g, '_')}`)
    .join('');
  return method === 'md5hash'
    ? createHash('md5')
        .update(text + secret)
        .digest('hex')
    : hmac(method, secret, text);
}
