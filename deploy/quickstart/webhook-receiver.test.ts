import { createHmac, randomBytes } from 'node:crypto';
import { expect, test } from 'vitest';
import { freePort } from '../servers/ports.ts';
import { startWebhookReceiver, type ReceivedWebhook } from './webhook-receiver.ts';

const key = randomBytes(32);
const endpoint = { endpointId: 'e-1', secrets: [`whsec_${key.toString('base64')}`], publicKeys: [] };

async function start() {
  const receiver = await startWebhookReceiver({ port: await freePort() });
  receiver.know(async (path) => (path === '/acme' ? [endpoint] : []));
  const post = async (body: object | string, { by = key, path = '/acme' } = {}) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const timestamp = String(Math.floor(Date.now() / 1_000));
    const id = `evt_${/"seq":(\d+)/.exec(text)?.[1] ?? ''}`;
    const signature = createHmac('sha256', by).update(`${id}.${timestamp}.${text}`).digest('base64');
    const headers = {
      'webhook-id': id,
      'webhook-timestamp': timestamp,
      'webhook-signature': `v1,${signature}`,
    };
    const response = await fetch(receiver.url + path, { method: 'POST', headers, body: text });
    return { status: response.status, body: await response.json() };
  };
  const page = async () => (await fetch(receiver.url)).text();
  return { receiver, post, page, [Symbol.asyncDispose]: () => receiver[Symbol.asyncDispose]() };
}

function event(seq: number) {
  const data = { seq, messageId: `message-${seq}` };
  return { type: 'message.sent', timestamp: `2026-01-01T00:00:0${seq}.000Z`, data };
}

test('a genuine event is accepted and shown with its number, type, time and message', async () => {
  await using running = await start();
  const verdict = { verified: true, endpointId: 'e-1', schemes: ['v1'] };
  expect(await running.post(event(1))).toEqual({ status: 200, body: { ...verdict, repeated: false } });
  const page = await running.page();
  for (const cell of ['1', 'message.sent', 'message-1', 'verified (v1)'])
    expect(page).toContain(`<td>${cell}</td>`);
  expect(page).toContain('2026-01-01T00:00:01.000Z');
  expect(page).toContain('numbers 1 to 1, none missing');
  expect(page).toContain('<meta http-equiv="refresh" content="2" />');
  const received = (await (await fetch(`${running.receiver.url}/received`)).json()) as ReceivedWebhook[];
  expect(received).toEqual(running.receiver.received);
  expect(received).toEqual([
    {
      method: 'POST',
      path: '/acme',
      headers: expect.objectContaining({ 'webhook-id': 'evt_1' }),
      body: JSON.stringify(event(1)),
      at: expect.any(Number),
      signature: verdict,
      repeated: false,
    },
  ]);
});

test('an event with a foreign signature gets 401, is shown as not verified and is not counted', async () => {
  await using running = await start();
  const forged = await running.post(event(1), { by: randomBytes(32) });
  expect(forged).toEqual({
    status: 401,
    body: { verified: false, reason: 'its signature does not hold', repeated: false },
  });
  expect((await running.post(event(1), { path: '/elsewhere' })).status).toBe(401);
  const page = await running.page();
  expect(page).toContain('<b>not verified</b>: its signature does not hold');
  expect(page).toContain('<b>not verified</b>: no endpoint has this URL');
  expect(page).not.toContain('Endpoint e-1');
});

test('the page lists missing numbers until they arrive, and marks repeated events', async () => {
  await using running = await start();
  for (const seq of [2, 3, 9, 6]) await running.post(event(seq));
  expect(await running.page()).toContain('numbers 2 to 9, <b>missing: 4 to 5, 7 to 8</b>');
  for (const seq of [5, 4, 8]) await running.post(event(seq));
  expect(await running.page()).toContain('numbers 2 to 9, <b>missing: 7</b>');
  expect(await running.page()).not.toContain('(again)');
  expect((await running.post(event(9))).body).toMatchObject({ repeated: true });
  expect(await running.page()).toContain('(again)');
});

test('a hostile body is escaped, and an invalid body is shown as an event without a type', async () => {
  await using running = await start();
  const hostile = '<img src=x onerror=alert(1)>';
  await running.post({
    id: hostile,
    type: hostile,
    timestamp: hostile,
    data: { seq: 1.5, messageId: hostile },
  });
  for (const body of ['[]', 'null', '{"data":7}', 'no json', '']) await running.post(body);
  const response = await fetch(running.receiver.url);
  expect(response.headers.get('content-security-policy')).toContain("default-src 'none'");
  const page = await response.text();
  expect(page).not.toContain('<img');
  expect(page.split('&lt;img src=x').length - 1).toBe(3);
  expect(page.split('(no type)').length - 1).toBe(5);
});

test('a call gets 503 while the endpoints are unknown', async () => {
  await using receiver = await startWebhookReceiver({ port: await freePort() });
  const post = () => fetch(receiver.url, { method: 'POST', body: '{}' });
  expect((await post()).status).toBe(503);
  receiver.know(() => Promise.reject(new Error('down')));
  expect((await post()).status).toBe(503);
  expect(receiver.received).toEqual([]);
});

test('an oversized body gets 413, and requests other than POST are rejected', async () => {
  await using running = await start();
  expect((await running.post('x'.repeat(1024 * 1024 + 1))).status).toBe(413);
  expect((await fetch(running.receiver.url, { method: 'DELETE' })).status).toBe(405);
  expect((await fetch(`${running.receiver.url}/acme`)).status).toBe(404);
  expect(running.receiver.received).toEqual([]);
});

test('the newest 1,000 calls are kept, and the page shows how many of them it omits', async () => {
  await using running = await start();
  for (let seq = 1; seq <= 1_002; seq++) await running.post(event(seq));
  expect(running.receiver.received.length).toBe(1_000);
  const page = await running.page();
  expect(page).toContain('800 older ones are in the JSON.');
  expect(page).toContain('numbers 1 to 1002, none missing');
});
