import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { call } from '#test/support/http-call.ts';
import { startDosTarget, type DosTarget } from './dos-target.ts';
import { openRaw, statusesOf, type RawSocket } from './raw-client.ts';

const MIB = 1024 * 1024;
const MESSAGE = { channel: 'sms', to: '+15550000001', body: 'Hello' };
const REQUEST_MS = 4_000;
/** The memory limit of the api's container in the chart, in MiB. */
const CHART_LIMIT = 1024;

let target: DosTarget;
let key: string;
let other: string;
beforeAll(async () => {
  target = await startDosTarget({
    HEADERS_TIMEOUT_MS: String(REQUEST_MS),
    REQUEST_TIMEOUT_MS: String(REQUEST_MS),
    // The heap limit that Node chooses in a container with the chart's limit: half of it.
    NODE_OPTIONS: `--max-old-space-size=${CHART_LIMIT / 2}`,
  });
  [key, other] = [await target.key(), await target.key()];
  expect(await sendOne(key)).toBe(202);
  expect(await sendOne(other)).toBe(202);
});
afterAll(() => target?.[Symbol.asyncDispose]());

const sendOne = async (by: string): Promise<number> =>
  (await call(target.api.origin, 'POST', '/v1/messages', { key: by, body: MESSAGE })).status;
const openMany = (count: number, bytes: string): Promise<RawSocket[]> =>
  Promise.all(
    Array.from({ length: count }, async () => {
      const raw = await openRaw(target.port);
      raw.socket.write(bytes);
      return raw;
    }),
  );
const head = (...lines: string[]): string =>
  ['POST /v1/messages HTTP/1.1', 'Host: a', 'Content-Type: application/json', ...lines, '', ''].join('\r\n');
const refusals = async (reason: string): Promise<number> =>
  Number(
    new RegExp(`^despatch_http_bodies_refused_total\\{reason="${reason}"\\} (\\d+)`, 'm').exec(
      await target.api.metrics(),
    )?.[1],
  );

describe('eight hundred unfinished bodies of 1 MiB by one key', () => {
  const body = `${JSON.stringify(MESSAGE)}${' '.repeat(MIB - 100)}`;
  const piece = 0x10000;

  test.each<[name: string, begin: () => string, rest: string]>([
    ['of known length', () => head(`X-Service-Key: ${key}`, `Content-Length: ${MIB}`), body],
    [
      'in chunks',
      () => head(`X-Service-Key: ${key}`, 'Transfer-Encoding: chunked'),
      Array.from({ length: 15 }, () => `${piece.toString(16)}\r\n${' '.repeat(piece)}\r\n`).join(''),
    ],
  ])('%s use bounded memory, and another tenant is served', async (_, begin, rest) => {
    const before = await refusals('memory');
    const sockets = await openMany(800, begin() + rest);
    using ending = new DisposableStack();
    ending.defer(() => sockets.forEach(({ socket }) => socket.destroy()));
    const answered = (): RawSocket[] => sockets.filter(({ text }) => text() !== '');
    await expect.poll(() => answered().length).toBeGreaterThan(700);
    const refused = answered().filter(({ text }) => text().startsWith('HTTP/1.1 503'));
    // The other requests timed out and freed room for further ones; a slower machine frees more.
    expect(refused.length).toBeGreaterThan(200);
    expect(answered().filter(({ text }) => !/^HTTP\/1\.1 (?:503|400)/.test(text()))).toEqual([]);
    expect(refused[0]?.text()).toMatch(/\r\nretry-after: \d+\r\n/i);
    expect(JSON.parse(refused[0]?.text().split('\r\n\r\n')[1] as string)).toMatchObject({
      statusCode: 503,
      code: 'dependency_unavailable',
      path: '/v1/messages',
    });
    expect(await target.memoryMib()).toBeLessThan(CHART_LIMIT * 0.75);
    expect(await sendOne(other)).toBe(202);
    expect((await refusals('memory')) - before).toBeGreaterThan(200);
    ending.dispose();
    // The memory that the closed connections reserved is free again at once.
    await expect.poll(() => sendOne(key)).toBe(202);
    await expect.poll(reserved).toBe(0);
  });
});

test('bodies of many small values count with their parsed size, so that memory stays bounded', async () => {
  const body = `{"channel":"push","to":"t","title":"t","unknown":[${'{},'.repeat(14_900)}{}]}`;
  const answers = await Promise.all(
    Array.from({ length: 400 }, () => call(target.api.origin, 'POST', '/v1/messages', { key, body })),
  );
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202, 503]));
  expect(await target.memoryMib()).toBeLessThan(CHART_LIMIT * 0.85);
  await expect.poll(reserved).toBe(0);
});

test('the largest messages of three tenants at once get 202 or 503, with bounded memory', async () => {
  const keys = [key, other, await target.key()];
  const attachment = {
    filename: 'a',
    contentType: 'a/b',
    content: randomBytes(10 * MIB).toString('base64'),
  };
  const mail = {
    channel: 'email',
    to: 'a@b.example',
    from: 'a@b.example',
    subject: 's',
    attachments: [attachment],
  };
  const body = JSON.stringify(mail);
  const statuses = new Set<number>();
  const send = async (by: string): Promise<void> => {
    for (let i = 0; i < 4; i += 1) {
      statuses.add((await call(target.api.origin, 'POST', '/v1/messages', { key: by, body })).status);
    }
  };
  await Promise.all([...keys, ...keys, ...keys].map(send));
  expect([...statuses].filter((status) => ![202, 503].includes(status))).toEqual([]);
  expect(statuses).toContain(202);
  expect(await target.memoryMib()).toBeLessThan(CHART_LIMIT * 0.85);
  await expect.poll(reserved).toBe(0);
});

describe('a body', () => {
  test('that arrives too slowly gets 400, whatever its Content-Length', async () => {
    const before = await refusals('slow');
    const raw = await openRaw(target.port);
    raw.socket.write(head(`X-Service-Key: ${key}`, `Content-Length: ${MIB}`));
    const dripping = setInterval(() => raw.socket.write(' '.repeat(1_000)), 100);
    const text = await raw.closed;
    clearInterval(dripping);
    expect(statusesOf(text)).toEqual([400]);
    expect(text).toContain('Request did not arrive in time');
    expect(raw.lifeMs()).toBeGreaterThan(REQUEST_MS);
    expect(raw.lifeMs()).toBeLessThan(REQUEST_MS + 4_000);
    expect(await refusals('slow')).toBe(before + 1);
  });

  test('that is large has a longer timeout', async () => {
    const raw = await openRaw(target.port);
    raw.socket.write(
      head(`X-Service-Key: ${key}`, 'Connection: close', `Content-Length: ${MIB}`) + JSON.stringify(MESSAGE),
    );
    let left = MIB - JSON.stringify(MESSAGE).length;
    const sending = setInterval(() => {
      const bytes = Math.min(left, 64 * 1024);
      raw.socket.write(' '.repeat(bytes));
      left -= bytes;
      if (left === 0) clearInterval(sending);
    }, 300);
    const text = await raw.closed;
    clearInterval(sending);
    expect(statusesOf(text)).toEqual([202]);
    expect(raw.lifeMs()).toBeGreaterThan(REQUEST_MS);
  });
});

async function reserved(): Promise<number> {
  return Number(/^despatch_http_request_memory_bytes (\d+)/m.exec(await target.api.metrics())?.[1]);
}
