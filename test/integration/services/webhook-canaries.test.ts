import { createHmac, randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect } from '@nats-io/transport-node';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { searchForCanaries, type CanarySearch } from '#test/support/canaries.ts';
import { makeCertificates } from '#test/support/certificates.ts';
import { call, type CallOptions } from '#test/support/http-call.ts';
import { startServiceStack, type ServiceStack, type StackTenant } from '#test/support/service-stack.ts';

const PATH = '/v1/admin/webhook-endpoints';
const POLL = { interval: 200 };
const OPENED = { LOG_LEVEL: 'debug', EGRESS_ALLOW_CIDRS: '127.0.0.0/8', WEBHOOK_ALLOW_HTTP: 'true' };
const TOKEN = randomBytes(24).toString('hex');
/** Stored by design, so a search that does not find it is broken. */
const CONTROL = 'a description that is stored as it was sent';

type Received = { readonly headers: Readonly<Record<string, string>>; readonly body: string };
type Shown = Readonly<Record<string, never>>;

let stack: ServiceStack;
let tenant: StackTenant;
let search: CanarySearch | undefined;
const cleanup = new AsyncDisposableStack();
const said: string[] = [];
const received: Received[] = [];
/** Repeats the whole request in its answer, in several encodings. */
const receiver = createServer((request, response) => {
  const chunks: Buffer[] = [];
  request.on('data', (chunk: Buffer) => chunks.push(chunk));
  request.on('end', () => {
    const headers = request.headers as Record<string, string>;
    const body = Buffer.concat(chunks).toString();
    received.push({ headers, body });
    const authorization = headers['authorization'] ?? '';
    const echo = [TOKEN, authorization, ...said, encodeURIComponent(authorization)].join(' ');
    response.writeHead(isAway ? 503 : 200, { 'x-echo': encodeURIComponent(echo).slice(0, 2_000) });
    response.end(echo);
  });
});
let isAway = false;

beforeAll(async () => {
  await new Promise<void>((resolve) => receiver.listen(0, '127.0.0.1', resolve));
  cleanup.defer(() => new Promise<void>((resolve) => void receiver.close(() => resolve())));
  stack = await startServiceStack({
    api: OPENED,
    worker: { ...OPENED, SWEEP_INTERVAL_MS: '500' },
  });
  tenant = await stack.tenant(['sms']);
  const { user, password: pass } = stack.natsAdmin;
  const nats = await connect({ servers: stack.nats.url, user, pass });
  cleanup.defer(() => nats.close());
  nats.subscribe('>', { callback: (_, message) => search?.inText('NATS', message.string()) });
});
afterAll(async () => {
  await stack?.[Symbol.asyncDispose]();
  await cleanup.disposeAsync();
});

async function ask<T>(method: string, path: string, options: CallOptions): Promise<T> {
  const { status, body, headers } = await call(stack.apis[0].origin, method, path, options);
  expect({ path, status, body }).toMatchObject({
    status: expect.toSatisfy((n: number) => n < 429) as number,
  });
  search?.inText(`answer of ${method} ${path}`, `${JSON.stringify(body)} ${JSON.stringify([...headers])}`);
  return body as T;
}
/** Counts finished calls in the database, without an api request that would use a rate limit. */
async function calls(succeeded: boolean): Promise<number> {
  const [row] = await stack.admin<{ n: number }[]>`
    select count(*)::integer as n from delivery_attempts where succeeded = ${succeeded}`;
  return row?.n ?? 0;
}
const asOwner = <T = Shown>(method: string, path: string, body?: unknown): Promise<T> =>
  ask(method, path, { token: tenant.token, slug: tenant.slug, ...(body === undefined ? {} : { body }) });

/** Verifies a Standard Webhooks signature as a receiver does. */
function isSignedBy(secret: string, { headers, body }: Received): boolean {
  const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
  const signed = `${headers['webhook-id']}.${headers['webhook-timestamp']}.${body}`;
  const expected = `v1,${createHmac('sha256', key).update(signed).digest('base64')}`;
  return (headers['webhook-signature'] ?? '').split(' ').includes(expected);
}

test('endpoint secrets sign deliveries and leak nowhere; a header token is only in its column', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'despatch-certificates-'));
  cleanup.defer(() => rmSync(folder, { recursive: true }));
  makeCertificates(folder);
  const [certificate, key] = ['client.pem', 'client.key'].map((name) =>
    readFileSync(join(folder, name), 'utf8'),
  );
  const { port } = receiver.address() as AddressInfo;
  const made = await asOwner<{ id: string; secret: string }>('POST', PATH, {
    url: `http://127.0.0.1:${port}/hooks`,
    eventTypes: ['message.*'],
    description: CONTROL,
    headers: { Authorization: `Bearer ${TOKEN}` },
    signatures: ['v1', 'v1a'],
    clientCertificate: { certificate, key },
  });
  expect(made).toMatchObject({ id: expect.any(String), secret: expect.any(String) });
  const { id } = made;
  const { secret } = await asOwner<{ secret: string }>('POST', `${PATH}/${id}/rotate-secret`);
  said.push(made.secret, secret, made.secret.slice(6), secret.slice(6));
  search = searchForCanaries([
    { name: 'the former secret', secret: made.secret.slice(6) },
    { name: 'the secret', secret: secret.slice(6) },
    { name: 'the key of the certificate', secret: (key ?? '').split('\n')[1] ?? '' },
    { name: 'a header', secret: TOKEN, legal: ['table webhook_endpoints.headers'] },
    { name: 'control', secret: CONTROL },
  ]);

  const deliveries = (query = '') =>
    asOwner<{ items: { id: string; status: string; responseBody: string }[] }>(
      'GET',
      `${PATH}/${id}/deliveries${query}`,
    );
  const send = () =>
    ask('POST', '/v1/messages', {
      key: tenant.serviceKey,
      body: { channel: 'sms', to: '+15550000001', body: 'Hello' },
    });
  await send();
  await expect.poll(() => calls(true), POLL).toBeGreaterThanOrEqual(2);
  expect((await deliveries('?status=succeeded')).items.length).toBeGreaterThanOrEqual(2);
  for (const one of received) {
    expect([isSignedBy(made.secret, one), isSignedBy(secret, one)]).toEqual([true, true]);
    expect(one.headers['webhook-signature']).toContain('v1a,');
    expect(one.headers['authorization']).toBe(`Bearer ${TOKEN}`);
  }
  const { body: answers } = (await asOwner<{ response: { body: string } }>('POST', `${PATH}/${id}/test`))
    .response;
  expect(answers).toEqual(expect.any(String));
  // Other events of the message may arrive later.
  expect(received.filter(({ body }) => body.includes('test.ping'))).toHaveLength(1);

  isAway = true;
  await send();
  await expect.poll(() => calls(false), POLL).toBeGreaterThan(0);
  const [failed] = (await deliveries('?status=retrying')).items;
  expect(await asOwner('GET', `/v1/admin/deliveries/${failed?.id}`)).toMatchObject({
    attemptLog: [{ responseStatus: 503, responseBody: expect.any(String) }],
  });
  isAway = false;
  const before = await calls(true);
  await asOwner('POST', `/v1/admin/deliveries/${failed?.id}/redeliver`);
  await expect.poll(() => calls(true), POLL).toBeGreaterThan(before);

  await asOwner('PATCH', `${PATH}/${id}`, { clientCertificate: { certificate: key, key: certificate } });
  await asOwner('PATCH', `${PATH}/${id}`, { headers: { Authorization: [TOKEN], [TOKEN]: TOKEN } });
  for (const path of [PATH, `${PATH}/${id}`, '/v1/admin/audit-log?limit=200', '/v1/admin/events']) {
    await asOwner('GET', path);
  }
  await search.inTables(stack.admin, 'despatch');
  for (const service of [...stack.apis, ...stack.workers]) {
    search.inText(`log of ${service.name}`, await service.log());
    search.inText(`metrics of ${service.name}`, await service.metrics());
  }
  const hits = search.hits();
  expect(hits.filter(({ canary }) => canary !== 'control')).toEqual([]);
  expect(hits.filter(({ place }) => place.startsWith('table '))).not.toEqual([]);
});
