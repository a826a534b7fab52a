import { randomBytes, randomUUID, createSecretKey } from 'node:crypto';
import { request as httpRequest, type OutgoingHttpHeaders } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { ProviderAccountId, TenantId } from '#core/domain/storage/ids.ts';
import { receiptKey, receiptToken } from '#core/domain/receipts/receipt-token.ts';
import { secret } from '#core/domain/storage/secret.ts';
import { QueueFullError } from '#core/platform/process/micro-batch.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import type {
  NewReceiptCall,
  ReceiptAccount,
  ReceiptCallVerdict,
} from '#core/store/receipts/receipt-calls.ts';
import { buildApp } from '../app.ts';
import { DEFAULT_HTTP_LIMITS, type HttpLimits } from '../http/admission/http-limits.ts';
import { createFullAccounts } from './full-accounts.ts';
import { receiptRoutes } from './receipt-routes.ts';

const key = receiptKey(secret('a pepper of the tests that is long enough'));
const stack = new AsyncDisposableStack();
const accounts = new Map<string, ReceiptAccount>();
const lines: string[] = [];
const refusals: string[] = [];
let looks: string[] = [];
let stored: NewReceiptCall[] = [];
let verdict: () => ReceiptCallVerdict = () => 'stored';
let port = 0;

beforeAll(async () => {
  port = await open();
});

/** Starts an api. @returns its port. */
async function open(limits: Partial<HttpLimits> = {}): Promise<number> {
  const nothing = () => {};
  const app = await buildApp(
    {
      readmit: (caller) => caller,
      authenticate: () => {
        throw new Error('nobody signs in here');
      },
      log: createLogger({
        level: 'debug',
        component: 'api',
        destination: { write: (line) => void lines.push(line) },
      }),
      metrics: {
        routeKnown: nothing,
        requestMemory: { from: nothing },
        bodyRefused: (reason) => void refusals.push(reason),
        requestStarted: nothing,
        requestAnswered: (request) => void lines.push(JSON.stringify(request)),
        requestFinished: (request) => void lines.push(JSON.stringify(request)),
      },
      fingerprintKey: createSecretKey(Buffer.alloc(32)),
      trustProxy: false,
      publicBaseUrl: 'http://api.test',
      limits: { ...DEFAULT_HTTP_LIMITS, loopDelayMaxMs: 0, ...limits },
    },
    [
      receiptRoutes({
        key,
        publicBaseUrl: 'http://api.test',
        accounts: {
          async find(id) {
            looks.push(id);
            return accounts.get(id);
          },
        },
        batcher: {
          async store(call) {
            const outcome = verdict();
            if (outcome === 'stored') stored.push(call);
            return outcome;
          },
        },
        full: createFullAccounts(),
      }),
    ],
  );
  stack.defer(() => app.close());
  await app.listen({ port: 0, host: '127.0.0.1' });
  return (app.server.address() as AddressInfo).port;
}
afterAll(() => stack.disposeAsync());
beforeEach(() => {
  looks = [];
  stored = [];
  lines.length = 0;
  refusals.length = 0;
  verdict = () => 'stored';
});

function account(provider = 'twilio', facts: Partial<ReceiptAccount> = {}): ReceiptAccount {
  const id = randomUUID() as ProviderAccountId;
  const tenantId = randomUUID() as TenantId;
  const one = { id, tenantId, provider, receiptVersion: 1, receiptGraceUntil: null, ...facts };
  accounts.set(id, one);
  return one;
}

const tokenOf = ({ id, receiptVersion }: ReceiptAccount, version = receiptVersion): string =>
  receiptToken(key, id, version);
const pathOf = (one: ReceiptAccount, version?: number): string =>
  `/v1/receipts/${one.id}/${tokenOf(one, version)}`;

type Answer = {
  readonly status: number;
  readonly headers: NodeJS.Dict<string | string[]>;
  readonly text: string;
};

type CallOptions = {
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: Buffer | readonly Buffer[];
  readonly at?: number;
  readonly isWhole?: boolean;
};

/** Writes the request by hand, so that exactly these bytes are sent. */
function call(
  method: string,
  path: string,
  { headers = {}, body, at = port, isWhole = true }: CallOptions = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = httpRequest(
      { host: '127.0.0.1', port: at, method, path, headers, agent: false },
      (response) => {
        const chunks: Buffer[] = [];
        response.on('data', (chunk: Buffer) => chunks.push(chunk));
        response.on('end', () =>
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            text: Buffer.concat(chunks).toString(),
          }),
        );
      },
    );
    request.on('error', reject);
    if (Buffer.isBuffer(body)) return request.end(body);
    for (const piece of body ?? []) request.write(piece);
    if (!isWhole) return;
    request.end();
  });
}

const BYTES = Buffer.concat([Buffer.from('{"a":"é"\r\n, broken=%zz&\0'), Buffer.from([0xff, 0xfe, 0x80, 0])]);

describe('a receipt call is stored unchanged', () => {
  test.each([
    ['application/json'],
    ['application/json; charset=utf-8'],
    ['application/x-www-form-urlencoded'],
    ['text/plain; charset=UTF-8'],
    ['multipart/form-data; boundary=x'],
    ['application/octet-stream'],
    ['application/vnd.vendor+json'],
    ['garbage'],
    ['text/'],
    [''],
    [undefined],
  ])('with the content type %j, byte for byte', async (type) => {
    const one = account();
    const headers = type === undefined ? {} : { 'content-type': type };
    const answer = await call('POST', `${pathOf(one)}?mid=a%2Fb&x=%zz&&y=+`, { headers, body: BYTES });
    expect([answer.status, answer.text]).toEqual([200, '<Response/>']);
    expect(stored).toHaveLength(1);
    expect(stored[0]).toMatchObject({
      accountId: one.id,
      method: 'POST',
      receiptVersion: 1,
      query: '?mid=a%2Fb&x=%zz&&y=+',
      headers: type === undefined ? {} : { 'content-type': type },
    });
    expect(Buffer.from(stored[0]?.body ?? []).equals(BYTES)).toBe(true);
  });

  test('with a chunked body of unknown length', async () => {
    const pieces = Array.from({ length: 20 }, () => randomBytes(5_000));
    const answer = await call('POST', pathOf(account()), { body: pieces });
    expect(answer.status).toBe(200);
    expect(Buffer.from(stored[0]?.body ?? []).equals(Buffer.concat(pieces))).toBe(true);
  });

  test('without a body', async () => {
    const answer = await call('POST', pathOf(account()), { headers: { 'content-type': 'text/plain' } });
    expect(answer.status).toBe(200);
    expect(stored[0]?.body).toHaveLength(0);
  });

  test('as a GET request with only a query', async () => {
    const answer = await call('GET', `${pathOf(account())}?MessageSid=1&text=%E9&?x`);
    expect(answer.status).toBe(200);
    expect(stored[0]).toMatchObject({ method: 'GET', query: '?MessageSid=1&text=%E9&?x', headers: {} });
    expect(stored[0]?.body).toHaveLength(0);
  });

  test('with only the headers that the provider needs', async () => {
    const one = account();
    const headers = {
      'X-Twilio-Signature': 'abc=',
      'Content-Type': 'text/x',
      Authorization: 'Basic x',
      Cookie: 'a=b',
    };
    await call('POST', pathOf(one), { headers, body: BYTES });
    expect(stored[0]?.headers).toEqual({ 'content-type': 'text/x', 'x-twilio-signature': 'abc=' });
  });

  test('twice if it arrives twice', async () => {
    const path = pathOf(account());
    await call('POST', path, { body: BYTES });
    await call('POST', path, { body: BYTES });
    expect(stored).toHaveLength(2);
  });

  test('if the account id in the URL is in upper case', async () => {
    const one = account();
    const answer = await call('POST', `/v1/receipts/${one.id.toUpperCase()}/${tokenOf(one)}`, {
      body: BYTES,
    });
    expect([answer.status, stored[0]?.accountId]).toEqual([200, one.id]);
  });
});

describe('the answer to a receipt call', () => {
  test('is the body that the provider expects, with nosniff and no-store', async () => {
    const { headers, text } = await call('POST', pathOf(account()), { body: BYTES });
    expect([headers['content-type'], text]).toEqual(['text/xml', '<Response/>']);
    expect(headers['x-content-type-options']).toBe('nosniff');
    expect(headers['cache-control']).toBe('no-store');
  });

  test('is 204 if the provider expects no body', async () => {
    const answer = await call('POST', pathOf(account('telnyx')), { body: BYTES });
    expect([answer.status, answer.text, answer.headers['x-content-type-options']]).toEqual([
      204,
      '',
      'nosniff',
    ]);
  });

  test('is the challenge for a handshake, which is not stored', async () => {
    const one = account('whatsapp-cloud');
    const ask = (token: string): Promise<Answer> => {
      const query = new URLSearchParams({
        'hub.mode': 'subscribe',
        'hub.challenge': '1158201444',
        'hub.verify_token': token,
      });
      return call('GET', `${pathOf(one)}?${query.toString()}`);
    };
    const answer = await ask(tokenOf(one));
    expect([answer.status, answer.text]).toEqual([200, '1158201444']);
    expect(answer.headers['content-type']).toMatch(/^text\/plain/);
    expect(answer.headers['x-content-type-options']).toBe('nosniff');
    expect(stored).toEqual([]);
    await ask(tokenOf(account('whatsapp-cloud')));
    expect(stored).toHaveLength(1);
  });

  test('is 503 with Retry-After if the account is full, and the next calls skip the database', async () => {
    const one = account();
    let asked = 0;
    verdict = () => {
      asked += 1;
      return 'full';
    };
    for (let i = 0; i < 3; i += 1) {
      const answer = await call('POST', pathOf(one), { body: BYTES });
      expect([answer.status, Number(answer.headers['retry-after']) > 0]).toEqual([503, true]);
      expect(JSON.parse(answer.text)).toMatchObject({ code: 'dependency_unavailable' });
    }
    expect(asked).toBe(1);
    // A flood must not fill the log.
    expect(lines.filter((line) => line.includes('request.failed'))).toEqual([]);
    verdict = () => 'stored';
    expect((await call('POST', pathOf(account()), { body: BYTES })).status).toBe(200);
  });

  test('is 503 with Retry-After if the queue is full', async () => {
    verdict = () => {
      throw new QueueFullError('full');
    };
    const answer = await call('POST', pathOf(account()), { body: BYTES });
    expect([answer.status, Number(answer.headers['retry-after']) > 0]).toEqual([503, true]);
  });
});

describe('a receipt URL', () => {
  const urls: readonly (readonly [string, () => string])[] = [
    ['a guessed token', () => `/v1/receipts/${account().id}/1.${'A'.repeat(32)}`],
    ['a malformed token', () => `/v1/receipts/${account().id}/secret`],
    ["another account's token", () => `/v1/receipts/${account().id}/${tokenOf(account())}`],
    ['a token with another version', () => pathOf(account()).replace('/1.', '/2.')],
    ['an unknown account', () => `/v1/receipts/${randomUUID()}/${tokenOf(account())}`],
    ['a malformed account id', () => `/v1/receipts/nobody/${tokenOf(account())}`],
    ['a very long token', () => `/v1/receipts/${account().id}/${'1'.repeat(150)}`],
    ['a truncated token', () => pathOf(account()).slice(0, -1)],
    ['a token with an extra character', () => `${pathOf(account())}A`],
    ['a token with another spelling of its version', () => pathOf(account()).replace('/1.', '/01.')],
    ['a token with NUL', () => `${pathOf(account())}%00`],
    ['a token with a line end', () => `${pathOf(account())}%0d%0a`],
    ['a token behind an encoded slash', () => `/v1/receipts/${account().id}/x%2f${tokenOf(account())}`],
    ['a token of non-ASCII letters', () => `/v1/receipts/${account().id}/1.${'%D0%90'.repeat(32)}`],
    ['an id with an extra letter', () => pathOf(account()).replace('/1.', 'a/1.')],
    ['an id with NUL', () => pathOf(account()).replace('/1.', '%00/1.')],
    ['property names that every object has', () => '/v1/receipts/__proto__/constructor'],
  ];

  test('that is invalid gets the same answer, whatever is wrong with it', async () => {
    const seen = new Set<string>();
    for (const [, path] of urls) {
      const { status, headers, text } = await call('POST', path(), { body: BYTES });
      const { requestId: _, timestamp: __, path: ___, ...body } = JSON.parse(text) as Record<string, unknown>;
      const names = Object.keys(headers).filter((name) => name !== 'content-length');
      seen.add(JSON.stringify([status, names.toSorted(), body]));
    }
    expect([...seen]).toHaveLength(1);
  });

  test.each([
    ['invalid UTF-8', '%ff%fe'],
    ['a truncated escape', '%4'],
    ['an invalid escape', '%zz'],
  ])('that cannot be decoded is refused, and its token is not echoed or logged: %s', async (_name, end) => {
    const one = account();
    const answer = await call('POST', pathOf(one) + end, { body: BYTES });
    expect([400, 404]).toContain(answer.status);
    const [, proof = ''] = tokenOf(one).split('.');
    expect([answer.text, ...lines].filter((text) => text.includes(proof))).toEqual([]);
    expect([looks, stored]).toEqual([[], []]);
  });

  test.each(urls)('that is invalid is answered 404 without a database query: %s', async (_name, path) => {
    for (const method of ['GET', 'POST']) {
      const answer = await call(method, path(), method === 'GET' ? {} : { body: BYTES });
      expect([answer.status, JSON.parse(answer.text).code]).toEqual([404, 'not_found']);
    }
    expect([looks, stored]).toEqual([[], []]);
  });

  test.each([
    ['of a deleted account', (one: ReceiptAccount) => accounts.delete(one.id)],
    [
      'of a provider without receipt calls',
      (one: ReceiptAccount) => accounts.set(one.id, { ...one, provider: 'smtp' }),
    ],
    ['of a simulator', (one: ReceiptAccount) => accounts.set(one.id, { ...one, provider: 'simulator-sms' })],
  ])('is 404 %s', async (_name, change) => {
    const one = account();
    change(one);
    const answer = await call('POST', pathOf(one), { body: BYTES });
    expect([answer.status, JSON.parse(answer.text).code]).toEqual([404, 'not_found']);
    expect(stored).toEqual([]);
  });

  test('is 404 if the account is deleted before its call is stored', async () => {
    verdict = () => 'gone';
    expect((await call('POST', pathOf(account()), { body: BYTES })).status).toBe(404);
  });

  test.each([
    ['the current version', 3, 60_000, 200],
    ['the previous version within its grace period', 2, 60_000, 200],
    ['the previous version after its grace period', 2, -1, 404],
    ['an older version', 1, 60_000, 404],
    ['a future version', 4, 60_000, 404],
  ])('is accepted or refused by the version of its token: %s', async (_name, version, graceMs, status) => {
    const one = account('twilio', { receiptVersion: 3, receiptGraceUntil: new Date(Date.now() + graceMs) });
    expect((await call('POST', pathOf(one, version), { body: BYTES })).status).toBe(status);
    expect(stored.map(({ receiptVersion }) => receiptVersion)).toEqual(status === 200 ? [version] : []);
  });

  test('that is invalid is answered before its body is read', async () => {
    const path = `/v1/receipts/${account().id}/1.${'A'.repeat(32)}`;
    const answer = await call('POST', path, { headers: { expect: '100-continue' }, body: [] });
    expect([answer.status, answer.headers['connection']]).toEqual([404, 'close']);
  });
});

describe('the body of a receipt call', () => {
  test.each([
    ['twilio', 256 * 1024],
    ['sendgrid', 4 * 1024 * 1024],
  ])('for %s may have %i bytes and no more', async (provider, bytesMax) => {
    const path = pathOf(account(provider));
    const body = randomBytes(bytesMax);
    expect((await call('POST', path, { body })).status).toBeLessThan(300);
    expect(Buffer.from(stored[0]?.body ?? []).equals(body)).toBe(true);
    const announced = await call('POST', path, { headers: { 'content-length': bytesMax + 1 }, body: [body] });
    expect([announced.status, JSON.parse(announced.text).code]).toEqual([413, 'payload_too_large']);
    expect(stored).toHaveLength(1);
  });

  test('without a content-length is refused once it exceeds the limit', async () => {
    const pieces = [randomBytes(200 * 1024), randomBytes(56 * 1024 + 1)];
    const answer = await call('POST', pathOf(account()), { body: pieces });
    expect([answer.status, JSON.parse(answer.text).code]).toEqual([413, 'payload_too_large']);
    expect(stored).toEqual([]);
  });

  test('that does not arrive in time is refused', async () => {
    const at = await open({ requestTimeoutMs: 200, headersTimeoutMs: 200 });
    const headers = { 'content-length': 100 };
    const answer = await call('POST', pathOf(account()), { at, headers, body: [BYTES], isWhole: false });
    expect([answer.status, JSON.parse(answer.text).code]).toEqual([400, 'validation_failed']);
    expect([refusals, stored]).toEqual([['slow'], []]);
  });

  test('counts against the memory share of its tenant, which leaves room for others', async () => {
    const at = await open({ memoryBytesMax: 1024 * 1024 });
    const one = account('sendgrid');
    const other = account('sendgrid', { tenantId: one.tenantId });
    const stranger = account('sendgrid');
    const headers = { 'content-length': 500_000 };
    const socket = httpRequest({ host: '127.0.0.1', port: at, method: 'POST', path: pathOf(one), headers });
    socket.on('error', () => {});
    socket.write(BYTES);
    await expect.poll(() => looks).toContain(one.id);
    const body = randomBytes(200_000);
    const refused = await call('POST', pathOf(other), { at, body });
    expect([refused.status, refused.headers['retry-after']]).toEqual([503, '2']);
    expect((await call('POST', pathOf(stranger), { at, body })).status).toBeLessThan(300);
    expect([refusals, stored.map(({ accountId }) => accountId)]).toEqual([['memory'], [stranger.id]]);
    socket.destroy();
    await expect.poll(async () => (await call('POST', pathOf(other), { at, body })).status).toBeLessThan(300);
  });

  test('with a content encoding is refused', async () => {
    const answer = await call('POST', pathOf(account()), {
      headers: { 'content-encoding': 'gzip' },
      body: BYTES,
    });
    expect([answer.status, JSON.parse(answer.text).code]).toEqual([415, 'unsupported_media_type']);
    expect(stored).toEqual([]);
  });
});

test.each(['HEAD', 'PUT', 'DELETE', 'PATCH'])('a receipt URL answers %s with 405', async (method) => {
  const answer = await call(method, pathOf(account()));
  expect([answer.status, answer.headers['allow']]).toEqual([405, 'GET, OPTIONS, POST']);
});

test('the token of a receipt URL appears in no answer, log line or metric', async () => {
  const one = account();
  const token = tokenOf(one);
  const texts: string[] = [];
  const say = async (answer: Promise<Answer>): Promise<void> =>
    void texts.push(JSON.stringify(await answer.then(({ headers, text }) => [headers, text])));
  await say(call('POST', pathOf(one), { body: BYTES }));
  await say(call('PUT', pathOf(one)));
  await say(call('POST', `${pathOf(one)}/more`, { body: BYTES }));
  await say(call('POST', `${pathOf(one)}?a=b`, { headers: { 'content-encoding': 'br' }, body: BYTES }));
  await say(call('GET', `/V1/Receipts/${one.id}/${token}`));
  await say(call('GET', `//v1/receipts/${one.id}/${token}`));
  verdict = () => {
    throw new Error('an internal fault');
  };
  await say(call('POST', pathOf(one), { body: BYTES }));
  accounts.delete(one.id);
  await say(call('POST', pathOf(one), { body: BYTES }));
  expect(texts.at(-1)).toContain(`/v1/receipts/${one.id}/:token`);
  expect(lines.join('\n')).toContain('an internal fault');
  const [, proof = ''] = token.split('.');
  expect([...texts, ...lines].filter((text) => text.includes(proof))).toEqual([]);
});
