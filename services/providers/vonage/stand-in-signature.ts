import { createHash, createHmac } from 'node:crypto';
import type { ReceiptCall } from '../receipt.ts';
import type { SigningAccount } from '../stand-in.ts';

const base64url = (value: object | Buffer) =>
  (Buffer.isBuffer(value) ? value : Buffer.from(JSON.stringify(value))).toString('base64url');

/** https://developer.vonage.com/en/getting-started/concepts/webhooks#decoding-signed-webhooks */
export function signVonageCall(
  call: ReceiptCall,
  { secretConfig }: SigningAccount,
  at: number,
  over: { header?: object; claims?: object } = {},
): ReceiptCall {
  const claims = {
    iss: 'Vonage',
    iat: Math.floor(at / 1_000),
    jti: '0f4d6a5e-0000-4000-8000-000000000000',
    api_key: 'abcd1234',
    payload_hash: createHash('sha256').update(call.body).digest('hex'),
    ...over.claims,
  };
  const signed = `${base64url({ alg: 'HS256', typ: 'JWT', ...over.header })}.${base64url(claims)}`;
  const signature = createHmac('sha256', String(secretConfig['signatureSecret'])).update(signed).digest();
  return { ...call, headers: { ...call.headers, authorization: `Bearer ${signed}.${base64url(signature)}` } };
}

export const DIGESTS: Readonly<Record<string, (secret: string, text: string) => string>> = {
  md5hash: (secret, text) => createHash('md5').update(`${text}${secret}`).digest('hex'),
  md5: (secret, text) => createHmac('md5', secret).update(text).digest('hex'),
  sha1: (secret, text) => createHmac('sha1', secret).update(text).digest('hex').toUpperCase(),
  sha256: (secret, text) => createHmac('sha256', secret).update(text).digest('hex'),
  sha512: (secret, text) => createHmac('sha512', secret).update(text).digest('hex').toUpperCase(),
};

/** https://developer.vonage.com/en/getting-started/concepts/signing-messages */
export function signVonageParameters(
  call: ReceiptCall,
  { publicConfig, secretConfig }: SigningAccount,
  at: number,
): ReceiptCall {
  const text = Buffer.from(call.body).toString();
  const isJson = text.startsWith('{');
  const sent = isJson
    ? Object.entries(JSON.parse(text) as Record<string, string>)
    : [...new URLSearchParams(call.method === 'GET' ? call.url.split('?')[1] : text)];
  const parameters: Record<string, string> = {
    ...Object.fromEntries(sent),
    nonce: 'aaaaaaaa-bbbb-cccc-dddd-0123456789ab',
    timestamp: String(Math.floor(at / 1_000)),
  };
  let signed = '';
  for (const name of Object.keys(parameters).toSorted())
    signed += `&${name}=${(parameters[name] ?? '').split('&').join('_').split('=').join('_')}`;
  const digest = DIGESTS[publicConfig['signatureMethod'] as string] ?? DIGESTS['md5hash'];
  const sig = digest?.(String(secretConfig['signatureSecret']), signed) ?? '';
  const all = { ...parameters, sig };
  if (call.method === 'GET')
    return { ...call, url: `${call.url.split('?')[0]}?${new URLSearchParams(all).toString()}` };
  return { ...call, body: Buffer.from(isJson ? JSON.stringify(all) : new URLSearchParams(all).toString()) };
}
