import { createSecretKey, randomUUID } from 'node:crypto';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { DAY_MS } from '#core/domain/text/duration.ts';
import { notFound } from '#core/domain/fault/app-error.ts';
import { secret } from '#core/domain/storage/secret.ts';
import {
  UNSUBSCRIBE_DAYS,
  unsubscribeKey,
  unsubscribeToken,
  type Unsubscribing,
} from '#core/domain/recipient/unsubscribe-token.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import { buildApp } from '../app.ts';
import { DEFAULT_HTTP_LIMITS } from '../http/admission/http-limits.ts';
import { unsubscribeRoutes } from './unsubscribe-routes.ts';

const FORM = { 'content-type': 'application/x-www-form-urlencoded' };
const key = unsubscribeKey(secret('a pepper of the tests that is long enough'));
const stack = new AsyncDisposableStack();
const lines: string[] = [];
let unsubscribed: Unsubscribing[] = [];
let isThere = true;
let now = Date.UTC(2026, 10, 20);
let origin = '';

beforeAll(async () => {
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
        bodyRefused: nothing,
        requestStarted: nothing,
        requestAnswered: nothing,
        requestFinished: nothing,
      },
      fingerprintKey: createSecretKey(Buffer.alloc(32)),
      trustProxy: false,
      publicBaseUrl: 'http://api.test',
      limits: { ...DEFAULT_HTTP_LIMITS, loopDelayMaxMs: 0 },
    },
    [
      unsubscribeRoutes({
        key,
        epochMs: () => now,
        unsubscribe: async ({ about }) => {
          if (!isThere) throw notFound();
          unsubscribed.push(about);
        },
      }),
    ],
  );
  await app.listen({ host: '127.0.0.1', port: 0 });
  stack.defer(() => app.close());
  origin = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}`;
});
afterAll(() => stack.disposeAsync());
beforeEach(() => {
  unsubscribed = [];
  isThere = true;
  now = Date.UTC(2026, 10, 20);
});

function newLink(issuedAt = now): { readonly url: string; readonly about: Unsubscribing } {
  const address = `<i>${randomUUID()}@example.com`;
  const about = { tenantId: randomUUID(), messageId: randomUUID(), address, issuedAt };
  const token = unsubscribeToken(key, about);
  return { url: `${origin}/v1/unsubscribe/${token}`, about: { ...about, issuedAt } };
}

test('a one-click POST unsubscribes, and so does each repetition: the entry may have been deleted since', async () => {
  const { url, about } = newLink();
  for (let time = 0; time < 3; time++) {
    const answer = await fetch(url, { method: 'POST', headers: FORM, body: 'List-Unsubscribe=One-Click' });
    expect(answer.status).toBe(200);
    expect(await answer.text()).toContain('Unsubscribed');
  }
  expect(unsubscribed).toEqual([about, about, about]);
});

test('a one-click POST may be sent as multipart/form-data', async () => {
  const { url } = newLink();
  const body = new FormData();
  body.set('List-Unsubscribe', 'One-Click');
  expect((await fetch(url, { method: 'POST', body })).status).toBe(200);
  expect(unsubscribed).toHaveLength(1);
});

test('a GET shows a confirmation form and changes nothing', async () => {
  const { url, about } = newLink();
  for (const method of ['GET', 'GET']) {
    const answer = await fetch(url, { method });
    expect(answer.status).toBe(200);
    expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8');
    expect(answer.headers.get('cache-control')).toBe('no-store');
    expect(answer.headers.get('content-security-policy')).toContain("form-action 'self'");
    expect(answer.headers.get('content-security-policy')).toContain("default-src 'none'");
    const page = await answer.text();
    expect(page).toContain('<form method="post">');
    expect(page).toContain('name="List-Unsubscribe" value="One-Click"');
    expect(page).not.toContain(about.address);
    expect(page).not.toContain('<i>');
  }
  expect(unsubscribed).toEqual([]);
});

test('a HEAD is answered like a GET: programs that check links send it', async () => {
  const { url } = newLink();
  const answer = await fetch(url, { method: 'HEAD' });
  expect(answer.status).toBe(200);
  expect(answer.headers.get('content-type')).toBe('text/html; charset=utf-8');
  expect((await fetch(`${url}A`, { method: 'HEAD' })).status).toBe(404);
  const { headers } = await fetch(url, { method: 'PUT' });
  expect(headers.get('allow')).toBe('GET, HEAD, OPTIONS, POST');
  expect(unsubscribed).toEqual([]);
});

test.each(['', 'List-Unsubscribe=yes', 'x=One-Click', '{"List-Unsubscribe":"One-Click"}', 'a'.repeat(9_000)])(
  'a POST without List-Unsubscribe=One-Click is refused: %.20s',
  async (body) => {
    const { url } = newLink();
    const answer = await fetch(url, { method: 'POST', headers: FORM, body });
    expect([400, 413]).toContain(answer.status);
    expect(await answer.json()).toMatchObject({ statusCode: answer.status });
    expect(unsubscribed).toEqual([]);
  },
);

test('a link with an invalid token or to a missing message is answered 404', async () => {
  const { url } = newLink();
  for (const wrong of [`${url}A`, url.slice(0, -2), `${origin}/v1/unsubscribe/token`]) {
    for (const method of ['GET', 'POST']) {
      const answer = await fetch(wrong, {
        method,
        ...(method === 'GET' ? {} : { headers: FORM, body: 'List-Unsubscribe=One-Click' }),
      });
      expect({ wrong, status: answer.status }).toEqual({ wrong, status: 404 });
    }
  }
  isThere = false;
  const gone = await fetch(url, { method: 'POST', headers: FORM, body: 'List-Unsubscribe=One-Click' });
  expect(gone.status).toBe(404);
});

test('a link expires after thirteen months', async () => {
  const { url } = newLink();
  now += (UNSUBSCRIBE_DAYS + 1) * DAY_MS;
  for (const method of ['GET', 'POST']) {
    const answer = await fetch(url, {
      method,
      ...(method === 'GET' ? {} : { headers: FORM, body: 'List-Unsubscribe=One-Click' }),
    });
    expect(answer.status).toBe(404);
    expect(await answer.text()).toContain('Link expired');
  }
  expect(unsubscribed).toEqual([]);
});

test('no log line contains the token of a link', async () => {
  const { url } = newLink();
  await fetch(url);
  expect(lines.length).toBeGreaterThan(0);
  expect(lines.join('\n')).not.toContain(url.slice(-40));
});
