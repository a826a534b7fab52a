import { createHash, createHmac } from 'node:crypto';
import type { ReceiptCall } from '../receipt.ts';
import type { SigningAccount } from '../stand-in.ts';

const sha256 = (of: string | Uint8Array) => createHash('sha256').update(of).digest('hex');
const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');

/** Builds a JWT by hand, as https://developers.messagebird.com/api/#verifying-http-requests describes. */
export function messagebirdToken(
  claims: object,
  key: string,
  algorithm: 'HS256' | 'HS384' | 'HS512' = 'HS256',
): string {
  const text = `${part({ alg: algorithm, typ: 'JWT' })}.${part(claims)}`;
  const hash = `sha${algorithm.slice(2)}`;
  return `${text}.${createHmac(hash, key).update(text).digest('base64url')}`;
}

export function messagebirdClaims({ url, body }: ReceiptCall, at: number): Record<string, unknown> {
  const second = Math.floor(at / 1_000);
  return {
    iss: 'MessageBird',
    nbf: second,
    exp: second + 60,
    jti: '59a244dc-e9ad-4e23-9778-371faa238f72',
    url_hash: sha256(url),
    ...(body.length === 0 ? {} : { payload_hash: sha256(body) }),
  };
}

export function signMessagebirdCall(
  call: ReceiptCall,
  { secretConfig }: SigningAccount,
  at: number,
): ReceiptCall {
  const token = messagebirdToken(messagebirdClaims(call, at), String(secretConfig['signingKey']));
  return { ...call, headers: { ...call.headers, 'messagebird-signature-jwt': token } };
}
