import { logReadiness } from '#core/platform/telemetry/log-readiness.ts';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { connect } from 'node:net';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import { get, LEAST, request, send, startTestApi, type ApiTenant, type TestApi } from '#test/support/api.ts';
import { ERROR_CODES } from '#core/domain/fault/app-error.ts';
import { openPostgres } from '#core/platform/postgres/postgres.ts';
import { secret } from '#core/domain/storage/secret.ts';
import { requiredSchemaVersion } from '#core/store/schema/migration-files.ts';
import { schemaReadiness } from '#core/store/schema/schema-readiness.ts';

let api: TestApi;
let tenant: ApiTenant;
let port: number;
beforeAll(async () => {
  api = await startTestApi();
  tenant = await api.tenant();
  await api.first.app.listen({ host: '127.0.0.1', port: 0 });
  port = (api.first.app.server.address() as AddressInfo).port;
});
afterAll(() => api[Symbol.asyncDispose]());

/** Sends bytes unchanged and reads until the server closes. Returns the head of the first answer and the body of the last one. */
async function raw(text: string): Promise<{ status: number; body: unknown; headers: string }> {
  const socket = connect(port, '127.0.0.1');
  let answer = '';
  socket.on('data', (chunk: Buffer) => (answer += chunk.toString()));
  socket.write(text);
  await once(socket, 'close');
  const parts = answer.split('\r\n\r\n');
  const headers = parts[0] ?? '';
  return { status: Number(headers.split(' ')[1]), headers, body: JSON.parse(parts.at(-1) ?? '') as unknown };
}

const post = (body: unknown, headers?: Record<string, string>) => send(api.first, tenant.key, body, headers);

describe('every error response has the same shape', () => {
  const shape = (status: number, code: string) => ({
    status,
    body: {
      statusCode: status,
      code,
      timestamp: expect.any(String),
      path: expect.any(String),
      message: expect.any(String),
      requestId: expect.any(String),
    },
  });

  test.each([
    ['an unknown route', 'GET', '/v1/nothing', 404, 'route_not_found'],
    ['a trailing slash', 'GET', '/v1/messages/', 404, 'route_not_found'],
    ['a trailing slash on a POST', 'POST', '/v1/messages/', 404, 'route_not_found'],
    ['an empty id', 'GET', '/v1/messages//attempts', 404, 'route_not_found'],
    ['an id that is far too long', 'GET', `/v1/messages/${'a'.repeat(5000)}`, 404, 'not_found'],
    ['an unsupported method on the root', 'POST', '/', 405, 'method_not_allowed'],
    ['a wrong method', 'PUT', '/v1/messages', 405, 'method_not_allowed'],
    [
      'a wrong method on a path that could be an id',
      'PATCH',
      '/v1/messages/batch',
      405,
      'method_not_allowed',
    ],
    ['an exotic method', 'PROPFIND', '/v1/messages', 405, 'method_not_allowed'],
    ['broken percent-encoding in the path', 'GET', '/v1/messages/%zz', 400, 'validation_failed'],
    ['broken percent-encoding in the query', 'GET', '/v1/messages?to=%c3%28', 400, 'validation_failed'],
  ])('%s', async (_, method, url, status, code) => {
    const reply = await request(api.first, method, url, { headers: { 'x-service-key': tenant.key.text } });
    expect(reply).toMatchObject(shape(status, code));
    expect(reply.headers['content-type']).toBe('application/json; charset=utf-8');
    expect(reply.headers['x-request-id']).toBe(reply.body.requestId);
    expect(reply.body.path).toBe(url.split('?')[0]);
    expect(new Date(reply.body.timestamp).toISOString()).toBe(reply.body.timestamp);
    expect(ERROR_CODES).toContain(reply.body.code);
  });

  test.each([
    ['malformed JSON', '{"channel":', 400, 'malformed_json'],
    ['data after the JSON', '{} {}', 400, 'malformed_json'],
    ['bytes that are not UTF-8', Buffer.from([0x22, 0xff, 0x22]), 400, 'malformed_json'],
    ['33 nesting levels', `${'['.repeat(33)}${']'.repeat(33)}`, 400, 'validation_failed'],
    [
      'a hundred thousand nesting levels',
      `${'['.repeat(100_000)}${']'.repeat(100_000)}`,
      400,
      'validation_failed',
    ],
    ['a body of more than 1 MiB', `"${'a'.repeat(1024 * 1024)}"`, 413, 'payload_too_large'],
  ])('%s', async (_, body, status, code) => {
    expect(await post(body)).toMatchObject(shape(status, code));
  });

  test.each([
    'text/plain',
    'application/xml',
    'multipart/form-data; boundary=x',
    'application/x-www-form-urlencoded',
  ])('a body of type %s is 415', async (type) => {
    expect(await post('{}', { 'content-type': type })).toMatchObject(shape(415, 'unsupported_media_type'));
  });

  test('a compressed body is 415, and the message names Content-Encoding', async () => {
    const refused = await post(LEAST.sms, { 'content-encoding': 'gzip' });
    expect(refused).toMatchObject(shape(415, 'unsupported_media_type'));
    expect(refused.body.message).toBe('Content-Encoding must be absent or identity');
    expect(refused.headers['accept-encoding']).toBe('identity');
    expect((await post(LEAST.sms, { 'content-encoding': 'Identity' })).status).toBe(202);
  });

  test.each(['sms', 'push', 'whatsapp'] as const)(
    'attachments of %s, which supports none, count toward the 1 MiB body limit',
    async (channel) => {
      const attachments = [{ content: 'a'.repeat(2 * 1024 * 1024) }];
      expect(await post({ ...LEAST[channel], attachments })).toMatchObject(shape(413, 'payload_too_large'));
    },
  );

  test('a request that is too large is told its limit', async () => {
    const large = 'a'.repeat(2 * 1024 * 1024);
    const messageOf = async (body: unknown) => (await post(body)).body.message;
    expect(await messageOf({ ...LEAST.email, bodyText: large })).toBe(
      'Request is too large: it may have 1 MiB besides the contents of attachments',
    );
    expect(await messageOf('a'.repeat(15 * 1024 * 1024 + 1))).toBe(
      'Request is too large: it may have 15 MiB',
    );
  });

  test.each([
    ['{"metadata": {"order": 12345678901234567890}', 'metadata.order'],
    ['{"metadata": {"order": -9007199254740992}', 'metadata.order'],
    ['{"data": {"a": [1, {"b": 9007199254740993}]}', 'data.a.1.b'],
    ['{"data": {"a": 1e999}', 'data.a'],
  ])('a number that would lose precision is refused: %s', async (start, field) => {
    const refused = await post(start + JSON.stringify(LEAST.push).replace('{', ','));
    expect(refused).toMatchObject(shape(400, 'validation_failed'));
    expect(refused.body.details).toMatchObject([{ field, rule: 'precision' }]);
    expect(refused.text).not.toContain('12345678901234567');
  });

  test('two Idempotency-Key headers are refused', async () => {
    const head = `POST /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\nX-Service-Key: ${tenant.key.text}`;
    const body = JSON.stringify(LEAST.sms);
    const answer = await raw(
      `${head}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\nIdempotency-Key: a\r\nidempotency-key: b\r\n\r\n${body}`,
    );
    expect(answer).toMatchObject(shape(400, 'validation_failed'));
    expect(answer.body).toMatchObject({ details: [{ field: 'Idempotency-Key', rule: 'single' }] });
  });

  test('a credential that is given twice, or in another form, is refused with its right form', async () => {
    const { token } = await api.member(tenant, 'viewer');
    const bearer = `Authorization: Bearer ${token}`;
    const key = `X-Service-Key: ${tenant.key.text}`;
    const slug = `X-Tenant-Slug: ${tenant.slug}`;
    const answerTo = (...lines: readonly string[]) =>
      raw(`GET /v1/messages HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${lines.join('\r\n')}\r\n\r\n`);
    expect((await answerTo(bearer, slug)).status).toBe(200);
    const inForm = "header Authorization must be given once, in the form 'Bearer <token>'";
    for (const lines of [[bearer, bearer], [bearer, 'authorization: x'], [`Authorization: ${token}`]]) {
      const answer = await answerTo(...lines, slug);
      expect(answer).toMatchObject(shape(401, 'unauthenticated'));
      expect(answer).toMatchObject({ body: { message: expect.stringContaining(`: ${inForm}`) } });
    }
    const twoKeys = await answerTo(key, key);
    expect(twoKeys).toMatchObject(shape(401, 'unauthenticated'));
    const once = ': header X-Service-Key must be given once, with one API key';
    expect(twoKeys).toMatchObject({ body: { message: expect.stringContaining(once) } });
    const twoSlugs = await answerTo(bearer, slug, slug);
    expect(twoSlugs).toMatchObject(shape(400, 'validation_failed'));
    expect(twoSlugs).toMatchObject({ body: { details: [{ field: 'X-Tenant-Slug', rule: 'single' }] } });
  });

  test('32 nesting levels are accepted', async () => {
    const data = JSON.parse(`{"a":${'['.repeat(30)}${']'.repeat(30)}}`) as unknown;
    expect((await post({ ...LEAST.push, data })).status).toBe(202);
  });

  test('errors of the HTTP parser', async () => {
    expect(await raw('NONSENSE\r\n\r\n')).toMatchObject(shape(400, 'validation_failed'));
    expect(await raw(`GET / HTTP/1.1\r\nHost: x\r\nX-Long: ${'a'.repeat(20_000)}\r\n\r\n`)).toMatchObject(
      shape(413, 'payload_too_large'),
    );
    expect(
      await raw(
        'POST /v1/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n',
      ),
    ).toMatchObject(shape(400, 'validation_failed'));
  });

  const CHUNKED = 'Host: x\r\nX-Service-Key: KEY\r\nTransfer-Encoding: chunked\r\n\r\n';
  const LONG = `Host: x\r\nX-Long: ${'a'.repeat(20_000)}\r\n\r\n`;
  test.each([
    ['a bad chunk', `POST /v1/messages?to=x HTTP/1.1\r\n${CHUNKED}zz\r\n`, '/v1/messages'],
    ['headers that are too large', `GET /v1/messages?to=x HTTP/1.1\r\n${LONG}`, '/v1/messages'],
    ['a bad header', 'GET /v1/messages HTTP/1.1\r\nHost: x\r\nBad Name: 1\r\n\r\n', '/v1/messages'],
    ['a receipt URL with its token', `POST /v1/receipts/a/b HTTP/1.1\r\n${LONG}`, '/v1/receipts/a/:token'],
    ['a second request in one packet', `GET / HTTP/1.1\r\nHost: x\r\n\r\nGET /b HTTP/1.1\r\n${LONG}`, '/b'],
    ['a request line that cannot be read', 'NONSENSE\r\n\r\n', ''],
  ])('an error of the HTTP parser names the path of the request: %s', async (_, sent, path) => {
    expect((await raw(sent.replace('KEY', tenant.key.text))).body).toMatchObject({ path });
  });

  test.each([
    ['alone', 'CONNECT host:443 HTTP/1.1\r\nHost: host:443\r\n\r\n'],
    ['with bytes for the tunnel', `CONNECT host:443 HTTP/1.1\r\nHost: host:443\r\n\r\n${'x'.repeat(70_000)}`],
  ])('a CONNECT request %s', async (_, sent) => {
    const answer = await raw(sent);
    expect(answer).toMatchObject(shape(405, 'method_not_allowed'));
    expect(answer.headers).toMatch(/\r\nallow: *\r\n/);
  });

  test.each(['*', '*v1/openapi.json', '*v1/messages/x'])(
    'the target %s, which is no path',
    async (target) => {
      const answer = await raw(`GET ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`);
      expect(answer).toMatchObject(shape(404, 'route_not_found'));
      expect(answer.body).toMatchObject({ path: target });
    },
  );

  test.each([
    ['GET', '/v1/messages/6b0a8a2e-7c3a-4f5e-9d1b-2c3d4e5f6a7b', 404, 'not_found'],
    ['DELETE', '/v1/messages', 405, 'method_not_allowed'],
    ['GET', '/v1/messages/', 404, 'route_not_found'],
  ])('an absolute URL is like its path: %s %s', async (method, path, status, code) => {
    const headers = `Host: x\r\nX-Service-Key: ${tenant.key.text}\r\nConnection: close`;
    for (const origin of ['', 'http://x', 'HTTPS://x:1']) {
      const answer = await raw(`${method} ${origin}${path}?a=/b HTTP/1.1\r\n${headers}\r\n\r\n`);
      expect(answer).toMatchObject(shape(status, code));
      expect(answer.body).toMatchObject({ path });
    }
  });

  test('a request without Host', async () => {
    expect(await raw('GET /v1/openapi.json HTTP/1.1\r\nConnection: close\r\n\r\n')).toMatchObject(
      shape(400, 'validation_failed'),
    );
  });

  test('an unknown Expect header is ignored', async () => {
    expect(
      await raw('GET /v1/nothing HTTP/1.1\r\nHost: x\r\nExpect: magic\r\nConnection: close\r\n\r\n'),
    ).toMatchObject(shape(404, 'route_not_found'));
  });

  test('a 405 and OPTIONS list the allowed methods in the Allow header', async () => {
    const wrong = await request(api.first, 'DELETE', '/v1/messages');
    expect(wrong.headers['allow']).toBe('GET, HEAD, OPTIONS, POST');
    const options = await request(api.first, 'OPTIONS', '/v1/admin/messages');
    expect([options.status, options.headers['allow']]).toEqual([204, 'GET, HEAD, OPTIONS']);
    const own = await request(api.first, 'OPTIONS', '/v1/messages/batch');
    expect([own.status, own.headers['allow']]).toEqual([204, 'OPTIONS, POST']);
  });
});

describe('headers', () => {
  test('a valid X-Request-Id is kept, and an invalid one is replaced', async () => {
    const id = 'my-id.1_2';
    expect((await post(LEAST.sms, { 'x-request-id': id })).headers['x-request-id']).toBe(id);
    for (const bad of ['a b', 'a'.repeat(129), '<script>', '']) {
      expect((await post(LEAST.sms, { 'x-request-id': bad })).headers['x-request-id']).toMatch(/^[\w-]{12}$/);
    }
  });

  test('responses may not be stored, nor read as another content type', async () => {
    const answers = [
      await post(LEAST.sms),
      await post('{'),
      await get(api.first, '/v1/messages', tenant.key),
    ];
    for (const { headers } of answers)
      expect([headers['cache-control'], headers['x-content-type-options']]).toEqual(['no-store', 'nosniff']);
  });

  test('a process that is shutting down still answers, with Connection: close', async () => {
    const instance = await api.instance();
    expect((await send(instance, tenant.key, LEAST.sms)).headers['connection']).not.toBe('close');
    instance.endConnections();
    const reply = await send(instance, tenant.key, LEAST.sms);
    expect(reply.status).toBe(202);
    expect(reply.headers['connection']).toBe('close');
  });

  test('X-App-Name is truncated and sanitized, and never causes a refusal', async () => {
    const { status } = await post(LEAST.sms, { 'x-app-name': `console\u0001${'x'.repeat(100)}` });
    expect(status).toBe(202);
    await expect.poll(() => api.logLines.join('')).toContain(`"appName":"console${'x'.repeat(57)}"`);
  });
});

test('HEAD answers as GET does, without the body', async () => {
  const reply = await api.first.app.inject({
    method: 'HEAD',
    url: '/v1/messages',
    headers: { 'x-service-key': tenant.key.text },
  });
  expect([reply.statusCode, reply.payload]).toEqual([200, '']);
});

test('while the database is down, requests are 503 with Retry-After and without internal details', async () => {
  await using lonely = await startTestApi();
  const { key } = await lonely.tenant();
  expect((await send(lonely.first, key, LEAST.sms)).status).toBe(202);
  const [database] = await lonely.admin<{ name: string }[]>`select current_database() as name`;
  const limit = (connections: number) =>
    lonely.admin`alter database ${lonely.admin(database?.name ?? '')} connection limit ${lonely.admin.unsafe(String(connections))}`;
  await limit(0);
  try {
    await lonely.admin`select pg_terminate_backend(pid, 30000) from pg_stat_activity where usename = 'despatch_api' and datname = current_database()`;
    const replies = [await send(lonely.first, key, LEAST.sms), await get(lonely.first, '/v1/messages', key)];
    for (const reply of replies) {
      expect(reply).toMatchObject({
        status: 503,
        body: { code: 'dependency_unavailable', message: 'Service is temporarily unavailable' },
      });
      expect(Number(reply.headers['retry-after'])).toBeGreaterThan(0);
      expect(JSON.stringify(reply.body)).not.toMatch(/postgres|sql|connection|role|stack/i);
    }
  } finally {
    await limit(-1);
  }
  await expect.poll(async () => (await send(lonely.first, key, LEAST.sms)).status).toBe(202);
});

test('readiness distinguishes an unreachable database from an old schema', async () => {
  const pool = { poolMax: 1, statementTimeoutMs: 1_000, applicationName: 'test' };
  await using away = openPostgres({ ...pool, url: secret('postgres://nobody@127.0.0.1:1/x') });
  const needed = requiredSchemaVersion();
  const warned: unknown[] = [];
  const log = { ...silentLogger, warn: (...of: unknown[]) => void warned.push(of) };
  const check = schemaReadiness(away.sql, needed, logReadiness(log));
  expect([await check(), await check()]).toEqual([{ failing: ['database'] }, { failing: ['database'] }]);
  // Once, with the cause: Kubernetes does not show what a probe was answered.
  const err = expect.objectContaining({ code: 'ECONNREFUSED' });
  expect(warned).toEqual([[{ failing: ['database'], err }, 'Not ready']]);
  expect(await schemaReadiness(api.admin, needed, logReadiness(log))()).toEqual({ failing: [] });
  const later = { ...needed, migration: 9_999 };
  expect(await schemaReadiness(api.admin, later, logReadiness(log))()).toEqual({ failing: ['schema'] });
  // A database before its first migration lacks the functions that the check calls.
  await using empty = openPostgres({ ...pool, url: secret(inject('postgres').superuserUrl) });
  expect(await schemaReadiness(empty.sql, needed, logReadiness(log))()).toEqual({ failing: ['schema'] });
});

describe('the documentation', () => {
  type Operation = {
    responses: Record<string, unknown>;
    security: unknown[];
    operationId: string;
    summary: string;
  };
  type Document = { openapi: string; paths: Record<string, Record<string, Operation>> };

  test('describes every route with its credentials and the statuses it answers', async () => {
    const { status, body } = await request(api.first, 'GET', '/v1/openapi.json');
    expect(status).toBe(200);
    const { openapi, paths } = body as Document;
    expect(openapi).toBe('3.1.0');
    const operations = Object.entries(paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ name: `${method} ${path}`, operation })),
    );
    expect(operations.map(({ name }) => name)).toEqual(
      expect.arrayContaining([
        'post /v1/messages',
        'get /v1/admin/messages/{id}',
        'post /v1/admin/providers',
        'get /v1/admin/me',
      ]),
    );
    for (const { name, operation } of operations) {
      const { responses, security, summary } = operation;
      // The routes for vendors and recipients have their credential in the path, and public keys are public.
      const isOpen =
        /\/(?:receipts\/\{providerId\}|unsubscribe)\/\{token\}$|\/\{tenantId\}\/jwks\.json$/.test(name);
      const statuses = isOpen ? ['404', '413'] : ['401', '403', '429'];
      expect({ name, statuses: Object.keys(responses) }).toEqual({
        name,
        statuses: expect.arrayContaining(['400', ...statuses, '500', '503']) as unknown,
      });
      expect({ name, isOpen: security.length === 0, isSilent: summary === '' }).toEqual({
        name,
        isOpen,
        isSilent: false,
      });
    }
    expect(new Set(operations.map(({ operation }) => operation.operationId)).size).toBe(operations.length);
    expect(Object.keys(paths['/v1/messages']?.['post']?.responses ?? {})).toEqual([
      '202',
      '400',
      '401',
      '403',
      '405',
      '409',
      '413',
      '415',
      '429',
      '500',
      '503',
    ]);
  });
});

test('the root is a small page with links to the documentation and a policy that allows no scripts', async () => {
  const { app } = api.first;
  const page = await app.inject({ method: 'GET', url: '/' });
  expect(page.statusCode).toBe(200);
  expect(page.headers).toMatchObject({
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': expect.stringMatching(/^default-src 'none'; style-src 'sha256-\S+'; base-uri/),
    'x-content-type-options': 'nosniff',
  });
  const [, style = ''] = /<style>(.*)<\/style>/s.exec(page.payload) ?? [];
  const digest = createHash('sha256').update(style).digest('base64');
  expect(page.headers['content-security-policy']).toContain(`'sha256-${digest}'`);
  const links = [...page.payload.matchAll(/href="([^"]+)"/g)].map(([, link]) => link);
  expect(links).toEqual(['docs', 'docs/providers', 'v1/openapi.json']);
  for (const link of links) {
    expect((await app.inject({ method: 'GET', url: `/${link}` })).statusCode).toBeLessThan(400);
  }
  expect((await app.inject({ method: 'HEAD', url: '/' })).statusCode).toBe(200);
  const document = await app.inject({ method: 'GET', url: '/v1/openapi.json' });
  expect(Object.keys(document.json<{ paths: object }>().paths)).not.toContain('/');
});
