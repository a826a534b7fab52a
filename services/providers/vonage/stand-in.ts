import { randomBytes, randomUUID } from 'node:crypto';
import { startStandIn, type Received, type Reply, type StandIn, type StandInOptions } from '../stand-in.ts';
import { jsonObject } from '../stand-in-json.ts';
import { reportsBy } from '../stand-in-reports.ts';
import { vonageReporter } from './stand-in-reports.ts';

/** Characters of GSM 03.38 that take two septets. */
const ESCAPED = /[\f^{}\\[~\]|€]/;

export type VonageStandInOptions = StandInOptions & {
  /** The public key of every application, PEM. Default: not returned. */
  readonly publicKey?: string;
};

/** Starts Vonage's SMS and Messages APIs, the balance and applications on loopback. */
export function startVonageStandIn({ publicKey, ...options }: VonageStandInOptions = {}): Promise<StandIn> {
  return startStandIn((request) => answer(request, publicKey), options, reportsBy(vonageReporter));
}

function answer(request: Received, publicKey: string | undefined): Reply | undefined {
  const { method, path, headers } = request;
  const authorization = headers['authorization'] ?? '';
  if (method === 'POST' && path === '/sms/json') return sms(request);
  if (!/^(?:Basic|Bearer) ./.test(authorization))
    return problem(401, 'unauthorized', 'You did not provide correct credentials.');
  if (method === 'POST' && path === '/v1/messages') return messages(request);
  if (method !== 'GET' || !authorization.startsWith('Basic ')) return undefined;
  if (path === '/account/get-balance') return { status: 200, body: { value: 10.28, autoReload: false } };
  const id = /^\/v2\/applications\/([\w-]+)$/.exec(path)?.[1];
  if (id === undefined) return undefined;
  const keys = publicKey === undefined ? {} : { public_key: publicKey };
  return { status: 200, body: { id, name: 'Stand-in', keys } };
}

/** Its errors have status 200, and it answers for each part of a long text separately. */
function sms({ headers, body }: Received): Reply {
  const { from, to, text = '', type } = (jsonObject(body) ?? {}) as Readonly<Record<string, string>>;
  const failure = (status: string, errorText: string): Reply => ({
    status: 200,
    body: { 'message-count': '1', messages: [{ status, 'error-text': errorText }] },
  });
  if (!headers['authorization']?.startsWith('Basic ')) return failure('4', 'Bad Credentials');
  if (!to) return failure('2', 'Missing to param');
  if (!from) return failure('2', 'Missing from param');
  const count = countParts(text, type === 'unicode');
  const parts = Array.from({ length: count }, () => ({
    to,
    'message-id': randomBytes(8).toString('hex').toUpperCase(),
    status: '0',
    'remaining-balance': '10.28',
    'message-price': '0.0333',
    network: '12345',
  }));
  return { status: 200, body: { 'message-count': String(count), messages: parts } };
}

/** Neither an escaped character nor a surrogate pair is split over two parts. */
function countParts(text: string, isUnicode: boolean): number {
  const [single, part] = isUnicode ? [70, 67] : [160, 153];
  const sizes = Array.from(text, (one) => (isUnicode ? one.length : ESCAPED.test(one) ? 2 : 1));
  if (sizes.reduce((sum, size) => sum + size, 0) <= single) return 1;
  let count = 1;
  let used = 0;
  for (const size of sizes) {
    const fits = used + size <= part;
    count += fits ? 0 : 1;
    used = fits ? used + size : size;
  }
  return count;
}

function messages({ body }: Received): Reply {
  const message = jsonObject(body);
  if (message === undefined) return problem(400, 'invalid-json', 'The request body is not valid JSON.');
  const type = String(message['message_type']);
  const missing = ['channel', 'from', 'to', 'message_type', type].find((name) => !message[name]);
  if (missing !== undefined)
    return problem(422, '1010', 'Your request is incomplete.', [
      { name: missing, reason: `${missing} is required` },
    ]);
  if (message['channel'] === 'sms' && Array.from(String(message['text'])).length > 1_000)
    return problem(422, '1150', 'Invalid params', [
      { name: 'text', reason: 'Must be at most 1000 characters' },
    ]);
  return { status: 202, body: { message_uuid: randomUUID() } };
}

function problem(status: number, code: string, detail: string, invalid?: readonly object[]): Reply {
  const place = /^\d/.test(code) ? '/messages' : '';
  return {
    status,
    headers: { 'content-type': 'application/problem+json' },
    body: {
      type: `https://developer.vonage.com/api-errors${place}#${code}`,
      title: detail,
      detail,
      instance: randomUUID(),
      ...(invalid === undefined ? {} : { invalid_parameters: invalid }),
    },
  };
}
