import { createServer, type IncomingMessage, type RequestListener, type ServerResponse } from 'node:http';
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { call } from '#test/support/http-call.ts';
import { startServiceStack, type ServiceStack, type StackTenant } from '#test/support/service-stack.ts';
import { startDnsServer, type DnsServer } from './dns-server.ts';

// The endpoints here belong to tenants who attack: they try to reach what the worker can reach, to block the worker, to read back
// responses of internal servers, or to get the events of other tenants.

/** The only address that the operator allows for endpoints; the rest of the loopback network is blocked like any private one. */
const OPEN = '127.0.0.2';
const CLOSED = '127.0.0.1';
const NAMES: Readonly<Record<string, readonly string[]>> = {
  'open.example': [OPEN],
  'loopback.example': [CLOSED],
  'metadata.example': ['169.254.169.254'],
  'private.example': ['10.0.0.1'],
  'mapped.example': [`::ffff:${CLOSED}`],
  'nat64.example': ['64:ff9b::7f00:1'],
  'six-to-four.example': ['2002:7f00:1::'],
  'unique-local.example': ['fd00:ec2::254'],
  'mixed.example': [OPEN, CLOSED],
};
const BLOCKED = Object.keys(NAMES).filter((name) => name !== 'open.example');

type Taken = { readonly path: string; readonly headers: IncomingMessage['headers']; readonly body: string };
type Answer = (taken: Taken, response: ServerResponse) => void;

let dns: DnsServer;
let stack: ServiceStack;
/** Requests to the allowed address, and its answers by path. */
let taken: Taken[] = [];
const answers = new Map<string, Answer>();
/** Requests to the blocked address. */
let trapped: string[] = [];
let port: number;
const servers: ReturnType<typeof createServer>[] = [];

async function listen(address: string, at: number, listener: RequestListener): Promise<number> {
  const server = createServer(listener).listen(at, address);
  servers.push(server);
  await once(server, 'listening');
  return (server.address() as AddressInfo).port;
}

beforeAll(async () => {
  dns = await startDnsServer(({ name, before }) => {
    if (name === 'rebinding.example') return [before === 0 ? OPEN : CLOSED];
    return NAMES[name] ?? 'unknown name';
  });
  port = await listen(OPEN, 0, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const one = {
        path: request.url ?? '',
        headers: request.headers,
        body: Buffer.concat(chunks).toString(),
      };
      taken.push(one);
      const answer = answers.get(one.path);
      if (answer === undefined) response.writeHead(204, { connection: 'close' }).end();
      else answer(one, response);
    });
    request.on('error', () => {});
    response.on('error', () => {});
  });
  await listen(CLOSED, port, (request, response) => {
    trapped.push(request.url ?? '');
    response.end();
  });
  const EGRESS_ALLOW_CIDRS = `${OPEN}/32`;
  stack = await startServiceStack({
    api: { EGRESS_ALLOW_CIDRS },
    // Longer than the test: no call to a silent endpoint ends before the other endpoints got their events.
    worker: { EGRESS_ALLOW_CIDRS, EGRESS_DNS_SERVERS: dns.address, WEBHOOK_DEADLINE_MS: '30000' },
  });
});

afterAll(async () => {
  await stack?.[Symbol.asyncDispose]();
  await dns?.[Symbol.asyncDispose]();
  for (const server of servers) {
    server.close();
    server.closeAllConnections();
  }
});

afterEach(() => {
  expect(trapped).toEqual([]);
  taken = [];
  trapped = [];
  answers.clear();
});

const api = () => stack.apis[0].origin;

async function addEndpoint(
  { token, slug }: StackTenant,
  url: string,
  rest: object = {},
): Promise<{ id: string; secret: string }> {
  const body = { url, eventTypes: ['message.queued'], ...rest };
  const added = await call(api(), 'POST', '/v1/admin/webhook-endpoints', { token, slug, body });
  expect(added).toMatchObject({ status: 201 });
  return added.body as { id: string; secret: string };
}

async function send({ serviceKey }: StackTenant): Promise<string> {
  const body = { channel: 'sms', to: '+15550000001', body: 'Hello' };
  const sent = await call(api(), 'POST', '/v1/messages', { key: serviceKey, body });
  expect(sent.status).toBe(202);
  return sent.body.id as string;
}

type Attempt = {
  readonly status: number | null;
  readonly error: string | null;
  readonly answer: string | null;
  readonly succeeded: boolean;
};

function attemptsOf(endpointId: string): Promise<Attempt[]> {
  return stack.admin<Attempt[]>`select status, error, answer, succeeded from delivery_attempts
    where endpoint_id = ${endpointId} order by seq, attempt`;
}

/** Returns the first attempt to deliver the first event. */
async function firstAttempt(endpointId: string): Promise<Attempt> {
  const attempts = () => attemptsOf(endpointId);
  await expect.poll(async () => (await attempts()).length).toBeGreaterThan(0);
  return (await attempts())[0] as Attempt;
}

describe('an endpoint whose name resolves to an internal address', () => {
  test('is blocked, and one with an allowed address is called', async () => {
    const tenant = await stack.tenant();
    const endpoints = await Promise.all(
      Object.keys(NAMES).map(async (name) => {
        const { id } = await addEndpoint(tenant, `http://${name}:${port}/${name}`);
        return { name, id };
      }),
    );
    await send(tenant);
    for (const { name, id } of endpoints) {
      const { status, error } = await firstAttempt(id);
      const wanted = BLOCKED.includes(name)
        ? { status: null, error: 'egress_blocked' }
        : { status: 204, error: null };
      expect({ name, status, error }).toEqual({ name, ...wanted });
    }
    expect(taken.map(({ path }) => path)).toEqual(['/open.example']);
  });

  test('is called only at an address that was checked, even if the DNS answer changes', async () => {
    const tenant = await stack.tenant();
    const { id } = await addEndpoint(tenant, `http://rebinding.example:${port}/rebinding`);
    await send(tenant);
    expect(await firstAttempt(id)).toMatchObject({ status: 204 });
    expect(taken.map(({ path }) => path)).toEqual(['/rebinding']);
    await send(tenant);
    await expect.poll(async () => (await attemptsOf(id)).length).toBe(2);
    expect((await attemptsOf(id))[1]).toMatchObject({ status: null, error: 'egress_blocked' });
  });
});

test.each([
  'http://127.0.0.1/',
  'http://[::1]/',
  'http://[::ffff:127.0.0.1]/',
  'http://[64:ff9b::7f00:1]/',
  'http://169.254.169.254/latest/meta-data',
  'http://2130706433/',
  'http://0x7f.1/',
  'http://localhost/',
  'http://10.0.0.1/',
])('an endpoint URL with an internal address is rejected: %s', async (url) => {
  const { token, slug } = await stack.tenant([]);
  const body = { url, eventTypes: ['*'] };
  const added = await call(api(), 'POST', '/v1/admin/webhook-endpoints', { token, slug, body });
  expect(added).toMatchObject({ status: 400, body: { code: 'url_blocked' } });
});

test.each([301, 302, 303, 307, 308])(
  'a redirect (%i) is not followed and counts as a failure',
  async (status) => {
    const tenant = await stack.tenant();
    const path = `/redirect-${status}`;
    answers.set(path, (_, response) => {
      response.writeHead(status, { location: `http://${CLOSED}:${port}/redirected` }).end();
    });
    const { id } = await addEndpoint(tenant, `http://open.example:${port}${path}`);
    await send(tenant);
    expect(await firstAttempt(id)).toMatchObject({ status, succeeded: false });
  },
);

test('an endless response is cut off, and at most 1 KiB of it is stored', async () => {
  const tenant = await stack.tenant();
  let written = 0;
  answers.set('/endless', (_, response) => {
    response.writeHead(500);
    const chunk = 'x'.repeat(65_536);
    const more = (): void => {
      if (response.destroyed || written > 256 * 1024 * 1024) return;
      written += chunk.length;
      if (response.write(chunk)) setImmediate(more);
      else response.once('drain', more);
    };
    more();
  });
  const { id } = await addEndpoint(tenant, `http://open.example:${port}/endless`);
  await send(tenant);
  const { status, answer } = await firstAttempt(id);
  expect(status).toBe(500);
  expect(Buffer.byteLength(answer ?? '')).toBeLessThanOrEqual(1_024);
  // The buffers of two sockets and the cap.
  expect(written).toBeLessThan(32 * 1024 * 1024);
});

test('endpoints that never answer do not delay other tenants', async () => {
  const [loud, quiet] = await Promise.all([stack.tenant(), stack.tenant()]);
  answers.set('/silent', () => {});
  answers.set('/dripping', (_, response) => {
    response.writeHead(200);
    const timer = setInterval(() => response.write('.'), 200);
    response.once('close', () => clearInterval(timer));
  });
  const held = await Promise.all(
    ['/silent', '/dripping', '/silent', '/dripping'].map((path) =>
      addEndpoint(loud, `http://open.example:${port}${path}`),
    ),
  );
  const { id } = await addEndpoint(quiet, `http://open.example:${port}/quiet`);
  for (let i = 0; i < 10; i++) await send(loud);
  await expect.poll(() => taken.filter(({ path }) => path !== '/quiet').length).toBeGreaterThan(3);
  await send(quiet);
  expect(await firstAttempt(id)).toMatchObject({ succeeded: true });
  for (const one of held) expect(await attemptsOf(one.id)).toEqual([]);
});

test('a response that echoes the secrets of its endpoint is stored without them', async () => {
  const tenant = await stack.tenant();
  const token = 'Bearer planted-secret-of-the-endpoint-0123456789';
  const { id, secret } = await (async () => {
    answers.set('/echo', ({ headers }, response) => {
      response.writeHead(500, { 'x-echo': token }).end(JSON.stringify({ headers, secret: shown }));
    });
    let shown = '';
    const added = await addEndpoint(tenant, `http://open.example:${port}/echo`, {
      headers: { authorization: token },
    });
    shown = added.secret;
    return added;
  })();
  await send(tenant);
  const { answer } = await firstAttempt(id);
  expect(taken.find(({ path }) => path === '/echo')?.headers.authorization).toBe(token);
  expect(answer).toContain('webhook-id');
  for (const hidden of [token, token.slice(7), secret, secret.slice(6)]) expect(answer).not.toContain(hidden);
  const { slug } = tenant;
  const read = await call(api(), 'GET', `/v1/admin/webhook-endpoints/${id}`, { token: tenant.token, slug });
  expect(JSON.stringify(read.body)).not.toContain(token.slice(7));
  const stored = await stack.admin<{ row: string }[]>`
    select to_jsonb(e) - 'headers' ->> 'secret' as row from webhook_endpoints e where id = ${id}`;
  expect(stored[0]?.row).not.toContain(secret.slice(6));
});

test.each([
  { 'x-fine': 'a\r\nwebhook-id: forged' },
  { 'x-fine': 'a\nwebhook-id: forged' },
  { 'x-fine': 'a\u0000b' },
  { 'x-fine\r\nwebhook-id': 'forged' },
  { 'webhook-signature': 'v1,forged' },
  { 'Webhook-Id': 'forged' },
  { 'content-length': '1' },
  { 'Transfer-Encoding': 'chunked' },
  { host: 'metadata.example' },
])('a custom header that injects or overrides one of ours is rejected: %j', async (headers) => {
  const { token, slug } = await stack.tenant([]);
  const body = { url: `http://${OPEN}:${port}/`, eventTypes: ['*'], headers };
  const added = await call(api(), 'POST', '/v1/admin/webhook-endpoints', { token, slug, body });
  expect(added.status).toBe(400);
});

test("a tenant's endpoint receives only events of its own messages", async () => {
  const tenants = await Promise.all([stack.tenant(), stack.tenant()]);
  const sent = await Promise.all(
    tenants.map(async (tenant, i) => {
      await addEndpoint(tenant, `http://open.example:${port}/tenant-${i}`, { eventTypes: ['*'] });
      return [await send(tenant), await send(tenant)];
    }),
  );
  const idsAt = (path: string) =>
    taken
      .filter((one) => one.path === path)
      .map(({ body }) => (JSON.parse(body) as { data: { messageId?: string } }).data.messageId)
      .filter((id) => id !== undefined);
  for (const [i, ids] of sent.entries()) {
    await expect.poll(() => new Set(idsAt(`/tenant-${i}`)).size).toBe(2);
    expect(new Set(idsAt(`/tenant-${i}`))).toEqual(new Set(ids));
  }
});
