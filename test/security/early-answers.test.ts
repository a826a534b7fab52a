import { spawn, spawnSync } from 'node:child_process';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { call } from '#test/support/http-call.ts';
import { startDosTarget, type DosTarget } from './dos-target.ts';
import { openRaw, statusesOf, type RawSocket } from './raw-client.ts';

const MIB = 1024 * 1024;
const MESSAGE = { channel: 'sms', to: '+15550000001', body: 'Hello' };

let target: DosTarget;
let key: string;
beforeAll(async () => {
  target = await startDosTarget();
  key = await target.key();
});
afterAll(() => target?.[Symbol.asyncDispose]());

type Case = {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly bytes: number;
  readonly answer: readonly [status: number, code: string];
};

const json = { 'content-type': 'application/json' };

async function cases(): Promise<Record<string, Case>> {
  const blind = await target.key({}, ['messages:read']);
  const send = { path: '/v1/messages', bytes: 16 * MIB };
  return {
    'too much': { ...send, headers: { ...json, 'x-service-key': key }, answer: [413, 'payload_too_large'] },
    'no key': { ...send, headers: json, answer: [401, 'unauthenticated'] },
    'no right': {
      ...send,
      headers: { ...json, 'x-service-key': blind },
      answer: [403, 'insufficient_scope'],
    },
    'no such path': { ...send, path: '/v1/nothing', headers: json, answer: [404, 'route_not_found'] },
    'no such method': {
      ...send,
      path: '/v1/openapi.json',
      headers: json,
      answer: [405, 'method_not_allowed'],
    },
    'no JSON': {
      ...send,
      headers: { 'content-type': 'text/csv', 'x-service-key': key },
      answer: [415, 'unsupported_media_type'],
    },
  };
}

describe('a response sent before the request is read reaches a client that writes it all first', () => {
  const python = spawnSync('python3', ['--version']).status === 0;

  test.runIf(python)('with urllib of Python', async () => {
    const all = Object.values(await cases());
    const sent = all.flatMap(({ path, ...rest }) =>
      [true, false].flatMap((chunked) =>
        // The memory share of one tenant has room for two bodies that the api reads up to the bound.
        Array.from({ length: 2 }, () => ({ ...rest, chunked, url: target.api.origin + path })),
      ),
    );
    const answers = await runPython(sent);
    expect(answers).toEqual(sent.map(({ answer }) => answer));
  });

  test.each([
    ['with a chunked body', true],
    ['with a Content-Length', false],
  ])('%s', async (_, chunked) => {
    for (const [name, { path, headers, bytes, answer }] of Object.entries(await cases())) {
      const text = await writeThenRead(path, headers, bytes, chunked);
      expect([name, statusesOf(text)]).toEqual([name, [answer[0]]]);
      expect(text).toContain(`"code":"${answer[1]}"`);
      expect(text.toLowerCase()).toContain('\r\nconnection: close\r\n');
    }
  });

  test('with headers that are too long', async () => {
    const head = `GET /v1/a HTTP/1.1\r\nHost: a\r\n${`X-A: ${'a'.repeat(1000)}\r\n`.repeat(4_000)}\r\n`;
    const raw = await openRaw(target.port);
    await write(raw, head);
    expect(statusesOf(await raw.closed)).toEqual([413]);
  });
});

describe('a connection whose request is still read after the response', () => {
  const head = 'POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n';
  const chunk = `10000\r\n${' '.repeat(0x10000)}\r\n`;

  test('is closed when the client never stops sending', async () => {
    const raw = await openRaw(target.port, { isStubborn: true });
    await write(raw, `${head}Transfer-Encoding: chunked\r\n\r\n`);
    let written = 0;
    // The bound is in bytes, not in time, so the client writes as fast as it can.
    while (!raw.isClosed() && written < 1_024 * MIB && (await write(raw, chunk))) written += chunk.length;
    expect(statusesOf(await raw.closed)).toEqual([401]);
    // The bound, the bytes that arrive before the next check, and the kernel's buffers on both sides.
    expect(written).toBeLessThan(512 * MIB);
  });

  test('serves no second request', async () => {
    const raw = await openRaw(target.port, { isStubborn: true });
    const second = `${head}X-Service-Key: ${key}\r\nContent-Length: 60\r\n\r\n${JSON.stringify(MESSAGE).padEnd(60)}`;
    await write(raw, `${head}Content-Length: ${MIB}\r\n\r\n${' '.repeat(MIB)}${second}`);
    raw.socket.end();
    expect((await raw.closed).match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 401']);
  });

  test('uses little memory, and other clients are served', async () => {
    const before = await target.memoryMib();
    const sockets = await Promise.all(
      Array.from({ length: 600 }, () => openRaw(target.port, { isStubborn: true })),
    );
    for (const { socket } of sockets) socket.write(`${head}Transfer-Encoding: chunked\r\n\r\n`);
    const dripping = setInterval(() => {
      for (const { socket, isClosed } of sockets) if (!isClosed()) socket.write(chunk.slice(0, 500));
    }, 100);
    await expect.poll(() => sockets.filter(({ text }) => statusesOf(text()).length > 0).length).toBe(600);
    const { status } = await call(target.api.origin, 'POST', '/v1/messages', { key, body: MESSAGE });
    expect(status).toBe(202);
    expect((await target.memoryMib()) - before).toBeLessThan(100);
    clearInterval(dripping);
    for (const { socket } of sockets) socket.destroy();
  });

  test('does not delay the shutdown of the process', async () => {
    await using other = await startDosTarget();
    const raw = await openRaw(other.port, { isStubborn: true });
    await write(raw, `${head}Transfer-Encoding: chunked\r\n\r\n`);
    const dripping = setInterval(() => raw.socket.write('1\r\n \r\n'), 100);
    await expect.poll(() => statusesOf(raw.text())).toEqual([401]);
    const started = performance.now();
    await other.api.end();
    clearInterval(dripping);
    // Earlier than the shutdown gives up requests under way.
    expect(performance.now() - started).toBeLessThan(10_000);
  });
});

test('a small body of a rejected request keeps the connection open', async () => {
  const raw = await openRaw(target.port);
  const body = JSON.stringify(MESSAGE);
  const head = `POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n`;
  await write(raw, `${head}\r\n${body}`);
  await expect.poll(() => statusesOf(raw.text())).toEqual([401]);
  await write(raw, `${head}X-Service-Key: ${key}\r\nConnection: close\r\n\r\n${body}`);
  expect((await raw.closed).match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 401', 'HTTP/1.1 202']);
});

test('a client with Expect: 100-continue gets 401 or 100 before it sends the body', async () => {
  const head = `POST /v1/messages HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: ${MIB}\r\n`;
  const refused = await openRaw(target.port);
  await write(refused, `${head}\r\n`);
  await expect.poll(() => statusesOf(refused.text())).toEqual([401]);
  refused.socket.destroy();

  const welcome = await openRaw(target.port);
  await write(welcome, `${head}Connection: close\r\nX-Service-Key: ${key}\r\n\r\n`);
  await expect.poll(() => statusesOf(welcome.text())).toEqual([100]);
  await write(welcome, JSON.stringify(MESSAGE).padEnd(MIB));
  expect(statusesOf(await welcome.closed)).toEqual([100, 202]);
});

/**
 * Writes `bytes`, then lets the event loop read what has arrived; a write that the kernel takes at once would not.
 * @returns false where the connection has ended.
 */
function write({ socket }: RawSocket, bytes: string): Promise<boolean> {
  return new Promise((resolve) =>
    socket.write(bytes, 'latin1', (error) => setImmediate(() => resolve(!error))),
  );
}

/** Reads nothing of the answer until the whole request is written. */
async function writeThenRead(
  path: string,
  headers: Readonly<Record<string, string>>,
  bytes: number,
  chunked: boolean,
): Promise<string> {
  const raw = await openRaw(target.port);
  raw.socket.pause();
  const lines = Object.entries({
    ...headers,
    ...(chunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(bytes) }),
  }).map(([name, value]) => `${name}: ${value}\r\n`);
  await write(raw, `POST ${path} HTTP/1.1\r\nHost: a\r\n${lines.join('')}\r\n`);
  const piece = ' '.repeat(0x10000);
  for (let left = bytes; left > 0; left -= piece.length) {
    if (!(await write(raw, chunked ? `10000\r\n${piece}\r\n` : piece))) break;
  }
  if (chunked) await write(raw, '0\r\n\r\n');
  raw.socket.resume();
  return raw.closed;
}

async function runPython(sent: readonly object[]): Promise<unknown> {
  const script = fileURLToPath(new URL('urllib-client.py', import.meta.url));
  const child = spawn('python3', [script], { stdio: ['pipe', 'pipe', 'inherit'] });
  child.stdin.end(JSON.stringify(sent));
  return JSON.parse(await text(child.stdout));
}
