import { readFile } from 'node:fs/promises';
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { call } from '#test/support/http-call.ts';
import { startDosTarget, type DosTarget } from './dos-target.ts';
import { openRaw, statusesOf, type RawSocket } from './raw-client.ts';

const HEADERS_MS = 500;
const REQUEST_MS = 1_000;
const CONNECTIONS_MAX = 600;
/** Node checks its timeouts once a second; the rest is an allowance for a busy machine. */
const LATE_MS = 10_000;
const MESSAGE = { channel: 'sms', to: '+15550000001', body: 'Hello' };

let target: DosTarget;
let key: string;

beforeAll(async () => {
  target = await startDosTarget({
    HEADERS_TIMEOUT_MS: String(HEADERS_MS),
    REQUEST_TIMEOUT_MS: String(REQUEST_MS),
    CONNECTIONS_MAX: String(CONNECTIONS_MAX),
  });
  key = await target.key();
  expect(await sendOne()).toBe(202);
});
afterAll(() => target?.[Symbol.asyncDispose]());

const sendOne = async (): Promise<number> =>
  (await call(target.api.origin, 'POST', '/v1/messages', { key, body: MESSAGE })).status;
const openMany = (count: number): Promise<RawSocket[]> =>
  Promise.all(Array.from({ length: count }, () => openRaw(target.port)));

/** Writes `bytes` to each open socket again and again. */
function drip(sockets: readonly RawSocket[], bytes: string): Disposable {
  const timer = setInterval(() => {
    for (const { socket, isClosed } of sockets) if (!isClosed()) socket.write(bytes);
  }, 100);
  return { [Symbol.dispose]: () => clearInterval(timer) };
}

/** Sends valid messages until all the sockets are closed. @returns the statuses. */
async function serveUntilClosed(sockets: readonly RawSocket[]): Promise<number[]> {
  const started = performance.now();
  const statuses = new Set<number>();
  while (sockets.some(({ isClosed }) => !isClosed()) && performance.now() - started < 20_000) {
    statuses.add(await sendOne());
  }
  return [...statuses];
}

/** Sends valid messages for a while. @returns the statuses. */
async function serveFor(durationMs: number): Promise<number[]> {
  const until = performance.now() + durationMs;
  const statuses = new Set<number>();
  while (performance.now() < until) statuses.add(await sendOne());
  return [...statuses];
}

describe('slow connections', () => {
  const head = `POST /v1/messages HTTP/1.1\r\nHost: api.example\r\nContent-Type: application/json\r\n`;

  const withKey = (): string => `${head}X-Service-Key: ${key}\r\n`;

  /** For each kind: the first bytes, the bytes that are repeated, and the deadline by which the api closes the connection. */
  const kinds = (): Record<string, readonly [begin: string, more: string, deadlineMs: number]> => ({
    'say nothing': ['', '', HEADERS_MS],
    'drip a header': ['GET /v1/messages HTTP/1.1\r\nX-Slow: ', 'a', HEADERS_MS],
    'drip headers': [head, 'X-A: b\r\n', HEADERS_MS],
    'drip empty lines': ['\r\n', '\r\n', HEADERS_MS],
    'drip a body': [`${withKey()}Content-Length: 1000\r\n\r\n{`, ' ', REQUEST_MS],
    'drip chunks': [`${withKey()}Transfer-Encoding: chunked\r\n\r\n`, '1\r\n \r\n', REQUEST_MS],
    'drip the size of a chunk': [`${withKey()}Transfer-Encoding: chunked\r\n\r\n`, '0', REQUEST_MS],
  });

  test('are closed at their timeout, while other clients are served', async () => {
    const groups = await Promise.all(
      Object.entries(kinds()).map(async ([kind, [begin, more, deadlineMs]]) => {
        const sockets = await openMany(60);
        for (const { socket } of sockets) socket.write(begin);
        return { kind, sockets, deadlineMs, dripping: drip(sockets, more) };
      }),
    );
    using ending = new DisposableStack();
    for (const { dripping } of groups) ending.use(dripping);
    const statuses = await serveUntilClosed(groups.flatMap(({ sockets }) => sockets));
    expect(statuses).toEqual([202]);
    for (const { kind, sockets, deadlineMs } of groups) {
      const slowest = Math.max(...sockets.map(({ lifeMs }) => lifeMs()));
      expect({ kind, isInTime: slowest < deadlineMs + LATE_MS }).toEqual({ kind, isInTime: true });
      expect(new Set([400, ...sockets.flatMap(({ text }) => statusesOf(text()))])).toEqual(new Set([400]));
    }
  });

  test('that never read their responses use little memory and are closed', async () => {
    const before = await target.memoryMib();
    const sockets = await openMany(50);
    for (const { socket } of sockets) socket.pause();
    const asking = drip(sockets, DOCUMENT.repeat(4));
    expect(await serveFor(3_000)).toEqual([202]);
    asking[Symbol.dispose]();
    // The answers to all of these requests together are more than a gigabyte.
    expect((await target.memoryMib()) - before).toBeLessThan(300);
    for (const { socket } of sockets) socket.resume();
    await Promise.all(sockets.map(({ closed }) => closed));
  });

  test('that never read the response to a large batch do not block large requests of others', async () => {
    // Each of the messages is answered with twenty warnings.
    const ignored = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`${i}`.padEnd(64, 'x'), 1]));
    const body = JSON.stringify({
      messages: Array.from({ length: 500 }, () => ({ ...MESSAGE, ...ignored })),
    });
    const reader = await openRaw(target.port);
    reader.socket.pause();
    const large = await target.key({ batchMessagesMax: 500, sendRequestsPerMinute: 60_000 });
    const batch = `${head.replace('/messages', '/messages/batch')}X-Service-Key: ${large}\r\nContent-Length: ${body.length}\r\n\r\n`;
    // The first answers fill what the connection buffers; a later one does not leave the api.
    reader.socket.write((batch + body).repeat(8));
    const stored = async (): Promise<number> =>
      Number((await target.admin`select count(*) as n from despatch.messages`)[0]?.['n']);
    let before = -1;
    while (before !== (before = await stored())) await setTimeout(1_000);

    const other = await target.key();
    const text = {
      channel: 'email',
      from: 'a@example.com',
      to: 'b@example.com',
      subject: 'Hello',
      html: 'x'.repeat(400_000),
    };
    const { status } = await call(target.api.origin, 'POST', '/v1/messages', { key: other, body: text });
    expect(status).toBe(202);
    expect(reader.isClosed()).toBe(false);
    reader.socket.resume();
    await expect.poll(() => reader.text().length, { timeout: LATE_MS }).toBeGreaterThan(1_000_000);
    reader.socket.destroy();
  });

  test('that pipeline hundreds of requests are closed', async () => {
    const sockets = await openMany(50);
    for (const { socket } of sockets) socket.write(DOCUMENT.repeat(300));
    expect(await serveFor(1_000)).toEqual([202]);
    const answers = await Promise.all(sockets.map(({ closed }) => closed));
    for (const answer of answers) expect(statusesOf(answer).length).toBeLessThan(20);
  });
});

test('connections beyond the limit are closed, and new ones are accepted once others end', async () => {
  const sockets = await openMany(CONNECTIONS_MAX + 100);
  await expect.poll(() => sockets.filter(({ isClosed }) => isClosed()).length).toBeGreaterThanOrEqual(100);
  await Promise.all(sockets.map(({ closed }) => closed));
  expect(await sendOne()).toBe(202);
});

test('connections that arrive while the process is busy wait in the backlog, and none is refused', async (context) => {
  const waiting = CONNECTIONS_MAX;
  const kernelMax = Number(await readFile('/proc/sys/net/core/somaxconn', 'utf8').catch(() => '0'));
  if (kernelMax <= waiting) return context.skip(`the kernel lets ${kernelMax} connections wait`);
  target.api.signal('SIGSTOP');
  using going = new DisposableStack();
  going.defer(() => target.api.signal('SIGCONT'));
  // The client learns that a connection was refused only after the stopped process has resumed.
  const sockets = await openMany(waiting);
  going.dispose();
  expect(sockets.filter(({ isClosed }) => isClosed())).toEqual([]);
  for (const { socket } of sockets) socket.end();
  await Promise.all(sockets.map(({ closed }) => closed));
  expect(await sendOne()).toBe(202);
});

const DOCUMENT = 'GET /v1/openapi.json HTTP/1.1\r\nHost: api.example\r\n\r\n';
