import { createHash } from 'node:crypto';
import { hmac, hmacBytes } from '../signature.ts';

export type AwsKeys = {
  readonly accessKeyId: string;
  readonly secretAccessKey: string;
  /** Only for temporary keys. */
  readonly sessionToken?: string | undefined;
};

type UnsignedRequest = {
  readonly method: 'GET' | 'POST';
  /** AWS's own URL, even when a stand-in answers: the signature covers the host. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

type Scope = {
  readonly service: string;
  readonly region: string;
  readonly keys: AwsKeys;
  readonly now: number;
};

/**
 * Returns the headers of a request plus those of its Signature Version 4,
 * https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html.
 */
export function signedRequestHeaders(request: UnsignedRequest, scope: Scope): Record<string, string> {
  const { service, region, keys, now } = scope;
  const url = new URL(request.url);
  const time = new Date(now).toISOString().replace(/[-:]|\.\d+/g, '');
  const sent = {
    ...request.headers,
    'x-amz-date': time,
    ...(keys.sessionToken === undefined ? {} : { 'x-amz-security-token': keys.sessionToken }),
  };
  const signed = Object.entries({ ...sent, host: url.host })
    .map(([name, value]) => [name.toLowerCase(), value.trim().replace(/ +/g, ' ')] as const)
    .toSorted(([a], [b]) => (a < b ? -1 : 1));
  const names = signed.map(([name]) => name).join(';');
  const canonical = [
    request.method,
    url.pathname.split('/').map(encode).join('/'),
    canonicalQuery(url.searchParams),
    ...signed.map(([name, value]) => `${name}:${value}`),
    '',
    names,
    sha256(request.body),
  ].join('\n');
  const place = [time.slice(0, 8), region, service, 'aws4_request'];
  const text = ['AWS4-HMAC-SHA256', time, place.join('/'), sha256(canonical)].join('\n');
  const key = place.reduce(
    (secret: string | Buffer, part) => hmacBytes('sha256', secret, part),
    `AWS4${keys.secretAccessKey}`,
  );
  const signature = hmac('sha256', key, text);
  const credential = `${keys.accessKeyId}/${place.join('/')}`;
  return {
    ...sent,
    authorization: `AWS4-HMAC-SHA256 Credential=${credential}, SignedHeaders=${names}, Signature=${signature}`,
  };
}

function canonicalQuery(parameters: URLSearchParams): string {
  return [...parameters]
    .map(([name, value]) => `${encode(name)}=${encode(value)}`)
    .toSorted()
    .join('&');
}

/** Percent-encodes everything except letters, digits and `-._~`. */
function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (sign) => `%${sign.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
