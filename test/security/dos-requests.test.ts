import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { call } from '#test/support/http-call.ts';
import { startDosTarget, type DosTarget } from './dos-target.ts';
import { exchangeRaw, openRaw, statusesOf } from './raw-client.ts';

const MESSAGE = { channel: 'sms', to: '+15550000001', body: 'Hello' };
const PUSH = { channel: 'push', to: 'token-1', title: 'Hello' };
const MIB = 1024 * 1024;
const BOMB = gzipSync(Buffer.alloc(100 * MIB, ' ')).toString('latin1');

let target: DosTarget;
let key: string;
beforeAll(async () => {
  target = await startDosTarget({ REQUEST_TIMEOUT_MS: '5000' });
  key = await target.key();
  expect((await send(MESSAGE)).status).toBe(202);
});
afterAll(() => target?.[Symbol.asyncDispose]());

const send = (body: unknown, headers: Record<string, string> = {}) =>
  call(target.api.origin, 'POST', '/v1/messages', { key, body, headers });

describe('ambiguous HTTP cannot smuggle a second request:', () => {
  const HIDDEN = 'GET /v1/hidden HTTP/1.1\r\nHost: api.example\r\n\r\n';
  const post = (...lines: string[]): string =>
    ['POST /v1/messages HTTP/1.1', 'Host: api.example', 'Content-Type: application/json', ...lines].join(
      '\r\n',
    );

  /** The headers alone fail authentication (401) and the bytes after them fail parsing (400); either may be found first. */
  const EITHER = [expect.toSatisfy((status) => status === 400 || status === 401)];

  test.each<[name: string, bytes: () => string, statuses: unknown[]]>([
    [
      'Content-Length and Transfer-Encoding',
      () => post('Content-Length: 5', 'Transfer-Encoding: chunked', '', `0\r\n\r\n${HIDDEN}`),
      [400],
    ],
    [
      'Transfer-Encoding and Content-Length',
      () => post('Transfer-Encoding: chunked', 'Content-Length: 5', '', `0\r\n\r\n${HIDDEN}`),
      [400],
    ],
    ['two lengths', () => post('Content-Length: 2', 'Content-Length: 50', '', `{}${HIDDEN}`), [400]],
    ['two equal lengths', () => post('Content-Length: 2', 'Content-Length: 2', '', `{}${HIDDEN}`), [400]],
    ['a list of lengths', () => post('Content-Length: 2, 2', '', `{}${HIDDEN}`), [400]],
    ['a length with a sign', () => post('Content-Length: +2', '', `{}${HIDDEN}`), [400]],
    ['a hexadecimal length', () => post('Content-Length: 0x2', '', `{}${HIDDEN}`), [400]],
    ['a length of 40 digits', () => post(`Content-Length: ${'9'.repeat(40)}`, '', `{}${HIDDEN}`), [400]],
    ['a space before the colon', () => post('Content-Length : 2', '', `{}${HIDDEN}`), [400]],
    [
      'a space before the colon of Transfer-Encoding',
      () => post('Transfer-Encoding : chunked', '', `0\r\n\r\n${HIDDEN}`),
      [400],
    ],
    ['a folded header', () => post('X-A: b', ' Content-Length: 2', '', HIDDEN), [400]],
    ['a folded length', () => post('Content-Length:', ' 2', '', `{}${HIDDEN}`), [400]],
    ['bare line feeds', () => post('Content-Length: 2', '', `{}${HIDDEN}`).replaceAll('\r', ''), [400]],
    ['one bare line feed', () => post('X-A: b\nContent-Length: 2', '', `{}${HIDDEN}`), [400]],
    ['a bare carriage return', () => post('X-A: b\rContent-Length: 2', '', `{}${HIDDEN}`), [400]],
    ['NUL in a header', () => post('X-A: b\0c', '', HIDDEN), [400]],
    [
      'an unknown transfer coding',
      () => post('Transfer-Encoding: xchunked', '', `0\r\n\r\n${HIDDEN}`),
      EITHER,
    ],
    ['identity as a transfer coding', () => post('Transfer-Encoding: identity', '', HIDDEN), EITHER],
    ['chunked twice', () => post('Transfer-Encoding: chunked, chunked', '', `0\r\n\r\n${HIDDEN}`), [400]],
    [
      'chunked before another coding',
      () => post('Transfer-Encoding: chunked, gzip', '', `0\r\n\r\n${HIDDEN}`),
      [400],
    ],
    [
      'a chunk with a prefix',
      () => post('Transfer-Encoding: chunked', '', `0x2\r\n{}\r\n0\r\n\r\n${HIDDEN}`),
      EITHER,
    ],
    [
      'a chunk that is longer than its size',
      () => post('Transfer-Encoding: chunked', '', `1\r\n{}\r\n0\r\n\r\n${HIDDEN}`),
      [401],
    ],
    [
      'a chunk whose size ends in a line feed',
      () => post('Transfer-Encoding: chunked', '', `2\n{}\r\n0\r\n\r\n${HIDDEN}`),
      EITHER,
    ],
    [
      'two hosts',
      () =>
        `GET /v1/openapi.json HTTP/1.1\r\nHost: a.example\r\nhost: b.example\r\nConnection: close\r\n\r\n`,
      [400],
    ],
    ['two versions', () => 'GET /v1/a HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n', [400]],
    ['another protocol', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', [400]],
    ['TLS', () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03', [400]],
    [
      'a body of a GET request',
      () =>
        `GET /v1/a HTTP/1.1\r\nHost: a\r\nContent-Length: ${HIDDEN.length}\r\nConnection: close\r\n\r\n${HIDDEN}`,
      [404],
    ],
    [
      'a body of a request without a key',
      () => post(`Content-Length: ${HIDDEN.length}`, 'Connection: close', '', HIDDEN),
      [401],
    ],
    ['a tunnel', () => `CONNECT inside.example:443 HTTP/1.1\r\nHost: a\r\n\r\n${HIDDEN}`, [405]],
    [
      'a trace',
      () => 'TRACE /v1/messages HTTP/1.1\r\nHost: a\r\nX-Canary: canary\r\nConnection: close\r\n\r\n',
      [405],
    ],
  ])('%s', async (_, bytes, statuses) => {
    const answer = await exchangeRaw(target.port, Buffer.from(bytes(), 'latin1'));
    expect(statusesOf(answer)).toEqual(statuses);
    expect(answer).not.toMatch(/hidden|canary/);
  });
});

test('garbage after a request ends the connection', async () => {
  const answer = await exchangeRaw(target.port, 'GET /v1/a HTTP/1.1\r\nHost: a\r\n\r\n\0 garbage\r\n\r\n');
  expect(answer).not.toMatch(/ 2\d\d /);
  expect(statusesOf(answer)[0]).toBe(404);
});

describe('an oversized request:', () => {
  const SMALL = 'X-A: b\r\n';

  test.each<[name: string, head: string, statuses: number[]]>([
    ['a long URL', `GET /v1/${'a'.repeat(20_000)} HTTP/1.1\r\nHost: a\r\n\r\n`, [413]],
    ['a long header', `GET /v1/a HTTP/1.1\r\nHost: a\r\nX-A: ${'a'.repeat(20_000)}\r\n\r\n`, [413]],
    ['many headers', `GET /v1/a HTTP/1.1\r\nHost: a\r\n${SMALL.repeat(3_000)}\r\n`, [413]],
    ['a long method', `${'A'.repeat(20_000)} / HTTP/1.1\r\nHost: a\r\n\r\n`, [400]],
  ])('%s is rejected', async (_, bytes, statuses) => {
    expect(statusesOf(await exchangeRaw(target.port, bytes))).toEqual(statuses);
  });

  test('a Content-Length beyond the limit gets 413 before the body is sent', async () => {
    const head = `POST /v1/messages HTTP/1.1\r\nHost: a\r\nX-Service-Key: ${key}\r\nContent-Type: application/json\r\n`;
    const answer = await exchangeRaw(target.port, `${head}Content-Length: ${16 * MIB}\r\n\r\n`);
    expect(statusesOf(answer)).toEqual([413]);
  });

  test('a chunked body gets 413 as soon as it exceeds the limit', async () => {
    const raw = await openRaw(target.port);
    raw.socket.write(
      `POST /v1/messages HTTP/1.1\r\nHost: a\r\nX-Service-Key: ${key}\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`,
    );
    const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`;
    let chunks = 0;
    while (!raw.isClosed() && chunks < 10_000) {
      const isWritten = await new Promise<boolean>((resolve) => {
        raw.socket.write(chunk, (error) => resolve(!error));
      });
      if (!isWritten) break;
      chunks += 1;
      // The kernel may take a write at once, so that the event loop reads nothing: without this turn the client would keep
      // sending although an answer has arrived.
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(statusesOf(await raw.closed)).toEqual([413]);
    expect(chunks).toBeLessThan(1_000);
  });
});

describe('a body', () => {
  const nested = (open: string, inner: string, close: string, depth: number): string =>
    open.repeat(depth) + inner + close.repeat(depth);
  const inside = (field: string, json: string): string =>
    `{"channel":"push","to":"t","title":"t","${field}":${json}}`;
  const many = (count: number, item: (i: number) => string): string =>
    Array.from({ length: count }, (_, i) => item(i)).join(',');

  test.each<[name: string, body: string, status: number]>([
    ['of arrays in arrays', nested('[', '', ']', 500_000), 400],
    ['of objects in objects', nested('{"a":', '1', '}', 150_000), 400],
    ['of both in turn', nested('[{"a":', '1', '}]', 120_000), 400],
    ['of unclosed arrays', '['.repeat(1_000_000), 400],
    ['of unclosed objects', '{"a":'.repeat(200_000), 400],
    [
      'with arrays in arrays in the data field',
      inside('data', `{"a":${nested('[', '', ']', 400_000)}}`),
      400,
    ],
    ['with objects in objects in the data field', inside('data', nested('{"a":', '1', '}', 150_000)), 400],
    ['with arrays in arrays in an unknown field', inside('unknown', nested('[', '', ']', 400_000)), 400],
    ['with arrays in arrays in metadata', inside('metadata', nested('[', '', ']', 400_000)), 400],
    ['with half a million numbers', inside('data', `{"a":[${many(500_000, () => '0')}]}`), 400],
    ['with half a million tags', inside('tags', `[${many(400_000, () => '0')}]`), 400],
    ['with a hundred thousand names', inside('data', `{${many(90_000, (i) => `"a${i}":0`)}}`), 400],
    [
      'with a hundred thousand unknown fields',
      `{${many(90_000, (i) => `"a${i}":0`)},"channel":"push","to":"t","title":"t"}`,
      400,
    ],
    [
      'with a hundred thousand pairs of metadata',
      inside('metadata', `{${many(90_000, (i) => `"a${i}":0`)}}`),
      400,
    ],
    ['with one name a hundred thousand times', inside('data', `{${many(120_000, () => '"a":0')}}`), 400],
    ['with 29,990 numbers', inside('unknown', `[${many(29_990, () => '0')}]`), 202],
    [
      'with 29,990 invalid metadata values',
      inside('metadata', `{${many(29_990, (i) => `"a${i}":[]`)}}`),
      400,
    ],
    [
      'with 29,990 headers',
      `{"channel":"email","to":"a@b.example","headers":{${many(29_990, (i) => `"Y-${i}":"a"`)}}}`,
      400,
    ],
    [
      'with 29,990 attachments',
      `{"channel":"email","to":"a@b.example","attachments":[${many(29_990, () => '{}')}]}`,
      400,
    ],
    ['of numbers with a million digits', inside('badge', '9'.repeat(900_000)), 400],
    ['of escapes', inside('body', `"${'\\u0041'.repeat(170_000)}"`), 400],
    ['with __proto__', inside('data', '{"__proto__":{"channel":"sms"}}'), 400],
    ['with __proto__ in escapes', inside('data', '{"\\u005f\\u005fproto__":{"channel":"sms"}}'), 400],
    ['with __proto__ around the whole body', '{"__proto__":{"channel":"push","to":"t","title":"t"}}', 400],
    ['with constructor and prototype', inside('data', '{"constructor":{"prototype":{"isAdmin":true}}}'), 202],
    [
      'with the names of methods',
      inside('metadata', '{"toString":"a","valueOf":"b","hasOwnProperty":"c"}'),
      202,
    ],
  ])('%s is answered with less than 2 s of CPU time', async (_, body, status) => {
    const before = await cpuSeconds();
    expect((await send(body)).status).toBe(status);
    expect((await cpuSeconds()) - before).toBeLessThan(2);
    expect((await send(PUSH)).status).toBe(202);
  });

  test('with a duplicate name is refused and stores no message', async () => {
    const { status, body } = await send(
      '{"channel":"sms","to":"+15550000001","to":"+15550000002","body":"a"}',
    );
    expect([status, body.details]).toMatchObject([400, [{ field: 'to', rule: 'single' }]]);
    const listed = await call(target.api.origin, 'GET', '/v1/messages?channel=sms', { key });
    expect(listed.body.items).not.toContainEqual(expect.objectContaining({ to: '+15550000002' }));
  });

  test.each(['gzip', 'br', 'deflate', 'identity, gzip', 'zstd'])(
    'with Content-Encoding %s gets 415 and is not decompressed',
    async (encoding) => {
      expect((await send(BOMB, { 'content-encoding': encoding })).status).toBe(415);
      expect(await target.memoryMib()).toBeLessThan(600);
    },
  );
});

async function cpuSeconds(): Promise<number> {
  return Number(/^process_cpu_seconds_total (\S+)/m.exec(await target.api.metrics())?.[1]);
}
