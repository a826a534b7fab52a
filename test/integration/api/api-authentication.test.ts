import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  AUDIENCE,
  get,
  LEAST,
  request,
  send,
  startTestApi,
  type ApiTenant,
  type TestApi,
} from '#test/support/api.ts';
import { moveSuspension } from '#test/support/seed.ts';

let api: TestApi;
let tenant: ApiTenant;
beforeAll(async () => {
  api = await startTestApi();
  tenant = await api.tenant();
});
afterAll(() => api[Symbol.asyncDispose]());

const UNAUTHENTICATED = {
  status: 401,
  body: {
    statusCode: 401,
    code: 'unauthenticated',
    message: expect.stringMatching(/^Missing or invalid authentication: /),
  },
};

describe('service keys', () => {
  test('a missing or invalid key is 401, whatever the body', async () => {
    const { text } = tenant.key;
    const typo = text.slice(0, -1) + (text.endsWith('0') ? '1' : '0');
    const { text: otherText } = (await api.tenant()).key;
    // The secret of one key with the id of another; the checksum does not match.
    const mixed = text.slice(0, 26) + otherText.slice(26);
    for (const key of [undefined, '', 'dsp_live_x', typo, mixed, 'Bearer x']) {
      const headers: Record<string, string> = key === undefined ? {} : { 'x-service-key': key };
      for (const body of [LEAST.sms, { nonsense: true }, '{"broken":']) {
        expect(await request(api.first, 'POST', '/v1/messages', { headers, body })).toMatchObject(
          UNAUTHENTICATED,
        );
      }
    }
  });

  test('the message of a 401 names the missing or unaccepted credential', async () => {
    const messageTo = async (method: string, url: string, headers: Record<string, string>) =>
      (await request(api.first, method, url, { headers, ...(method === 'POST' ? { body: LEAST.sms } : {}) }))
        .body.message;
    const bearer = { authorization: 'Bearer nonsense' };
    const key = { 'x-service-key': tenant.key.text };
    expect(await messageTo('POST', '/v1/messages', {})).toMatch(/: header X-Service-Key is required$/);
    expect(await messageTo('GET', '/v1/messages', {})).toMatch(
      /: header X-Service-Key with an API key, or header Authorization with a bearer token, is required$/,
    );
    expect(await messageTo('POST', '/v1/messages', bearer)).toMatch(/this endpoint takes no bearer token$/);
    expect(await messageTo('GET', '/v1/admin/me', {})).toMatch(
      /: header Authorization with a bearer token is required$/,
    );
    expect(await messageTo('GET', '/v1/admin/me', key)).toMatch(/this endpoint takes no API key$/);
    expect(await messageTo('GET', '/v1/admin/me', bearer)).toMatch(/the bearer token is not valid/);
  });

  test('an expired key is 401 with its own code', async () => {
    const key = await api.key(tenant.tenantId, { expiresAt: new Date(Date.now() - 1000) });
    expect(await send(api.first, key, LEAST.sms)).toMatchObject({
      status: 401,
      body: { code: 'api_key_expired' },
    });
  });

  test('a cached key is refused from the moment it expires', async () => {
    // On a busy machine the first request may take longer than a short lifetime, so the test tries longer ones.
    for (const lifeMs of [400, 4_000, 15_000]) {
      const expiresAt = new Date(Date.now() + lifeMs);
      const key = await api.key(tenant.tenantId, { expiresAt });
      if ((await send(api.first, key, LEAST.sms)).status !== 202) continue;
      await expect
        .poll(async () => (await send(api.first, key, LEAST.sms)).body.code)
        .toBe('api_key_expired');
      expect(Date.now()).toBeGreaterThanOrEqual(expiresAt.getTime());
      return;
    }
    expect.unreachable('no key was taken within its life');
  });

  test('a revoked key is 401 immediately in a process that received the notice', async () => {
    const key = await api.key(tenant.tenantId);
    expect((await send(api.first, key, LEAST.sms)).status).toBe(202);
    await api.admin`update api_keys set revoked_at = now() where id = ${key.id}`;
    api.first.notice('key', { tenantId: tenant.tenantId, id: key.id });
    expect(await send(api.first, key, LEAST.sms)).toMatchObject({
      status: 401,
      body: { code: 'api_key_revoked' },
    });
  });

  test('a revoked key becomes 401 in a process that received no notice', async () => {
    const key = await api.key(tenant.tenantId);
    await send(api.first, key, LEAST.sms);
    await api.admin`update api_keys set revoked_at = now() where id = ${key.id}`;
    await expect
      .poll(async () => (await send(api.first, key, LEAST.sms)).status, { timeout: 15_000, interval: 200 })
      .toBe(401);
  });

  test('a replaced secret works until its grace period ends', async () => {
    const key = await api.key(tenant.tenantId);
    await api.admin`update api_keys set previous_secret_hash = secret_hash, secret_hash = ${Buffer.alloc(32, 1)},
      grace_until = now() + interval '1 hour' where id = ${key.id}`;
    expect((await send(api.first, key, LEAST.sms)).status).toBe(202);
    await api.admin`update api_keys set grace_until = now() - interval '1 second' where id = ${key.id}`;
    api.first.notice('key', { tenantId: tenant.tenantId, id: key.id });
    expect(await send(api.first, key, LEAST.sms)).toMatchObject({
      status: 401,
      body: { code: 'api_key_rotated' },
    });
  });

  test('a key without the scope of a route is 403', async () => {
    const sender = await api.key(tenant.tenantId, { scopes: ['messages:send'] });
    const reader = await api.key(tenant.tenantId, { scopes: ['messages:read'] });
    expect((await send(api.first, sender, LEAST.sms)).status).toBe(202);
    expect(await get(api.first, '/v1/messages', sender)).toMatchObject({
      status: 403,
      body: { code: 'insufficient_scope' },
    });
    expect((await get(api.first, '/v1/messages', reader)).status).toBe(200);
    expect(await send(api.first, reader, LEAST.sms)).toMatchObject({
      status: 403,
      body: { code: 'insufficient_scope' },
    });
  });

  test('below /v1/admin, a service key may read messages and nothing else', async () => {
    expect((await get(api.first, '/v1/admin/messages', tenant.key)).status).toBe(200);
    for (const path of [
      'me',
      'tenants',
      'providers',
      'api-keys',
      'members',
      'limits',
      'audit-log',
      'provider-catalog',
    ]) {
      expect(await get(api.first, `/v1/admin/${path}`, tenant.key)).toMatchObject(UNAUTHENTICATED);
    }
  });

  test('the last use of a key is stored', async () => {
    const instance = await api.instance();
    const key = await api.key(tenant.tenantId);
    await send(instance, key, LEAST.sms);
    await instance.stop();
    const [row] = await api.admin`select last_used_at from api_key_uses where api_key_id = ${key.id}`;
    expect(row?.['last_used_at']).toBeInstanceOf(Date);
  });
});

describe('sign-in tokens', () => {
  const me = (authorization: string) =>
    request(api.first, 'GET', '/v1/admin/me', { headers: { authorization } });
  const claims = { sub: 'ann', audience: AUDIENCE };

  test('a token of the issuer is accepted', async () => {
    const token = await api.issuer.mint({ ...claims, email: 'ann@example.org', name: 'Ann' });
    expect(await me(`Bearer ${token}`)).toMatchObject({
      status: 200,
      body: { subject: 'ann', email: 'ann@example.org', name: 'Ann' },
    });
    expect((await me(`bearer ${token}`)).status).toBe(200);
  });

  test.each([
    ['of another audience', { audience: 'somebody-else' }],
    ['of another issuer', { issuer: 'https://evil.example' }],
    ['that expired', { expiresInSeconds: -60 }],
    ['signed with a foreign key', { forged: true }],
    ['of another type', { typ: 'logout+jwt' }],
    [
      'with a jku header that names its own keys',
      { forged: true, header: { jku: 'https://evil.example/jwks.json' } },
    ],
  ])('a token %s is refused', async (_, change) => {
    expect(await me(`Bearer ${await api.issuer.mint({ ...claims, ...change })}`)).toMatchObject(
      UNAUTHENTICATED,
    );
  });

  test('a token that expired 20 seconds ago is accepted, within the clock skew of 30 seconds', async () => {
    expect((await me(`Bearer ${await api.issuer.mint({ ...claims, expiresInSeconds: -20 })}`)).status).toBe(
      200,
    );
  });

  test('unsigned and malformed tokens are refused', async () => {
    const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const payload = part({ iss: api.issuer.issuer, aud: AUDIENCE, sub: 'ann', exp: 9_999_999_999 });
    for (const token of [
      `${part({ alg: 'none' })}.${payload}.`,
      `${part({ alg: 'HS256' })}.${payload}.AAAA`,
      'x',
      '..',
      'a.b.c',
    ]) {
      expect(await me(`Bearer ${token}`)).toMatchObject(UNAUTHENTICATED);
    }
    expect(await me('Basic YTpi')).toMatchObject(UNAUTHENTICATED);
    expect(await request(api.first, 'GET', '/v1/admin/me')).toMatchObject(UNAUTHENTICATED);
  });

  test('after a rotation of signing keys, tokens of the old and the new key are accepted', async () => {
    const before = await api.issuer.mint(claims);
    expect((await me(`Bearer ${before}`)).status).toBe(200);
    await api.issuer.rotate();
    const after = await api.issuer.mint(claims);
    await expect.poll(async () => (await me(`Bearer ${after}`)).status).toBe(200);
    expect((await me(`Bearer ${before}`)).status).toBe(200);
  });
});

describe('tenants', () => {
  test('a missing slug is 400; an unknown slug or one of a foreign tenant is 404', async () => {
    const viewer = await api.member(tenant, 'viewer');
    const other = await api.tenant();
    const bearer = { authorization: `Bearer ${viewer.token}` };
    expect(await request(api.first, 'GET', '/v1/admin/messages', { headers: bearer })).toMatchObject({
      status: 400,
      body: { code: 'tenant_required', message: 'Header X-Tenant-Slug is required' },
    });
    for (const slug of [other.slug, 'no-such-tenant', 'Not A Slug']) {
      expect(await get(api.first, '/v1/admin/messages', { token: viewer.token, slug })).toMatchObject({
        status: 404,
        body: { code: 'not_found', message: 'Resource not found: X-Tenant-Slug names no tenant of yours' },
      });
    }
  });

  test('every role reads messages with a token under /v1 and /v1/admin', async () => {
    for (const role of ['owner', 'admin', 'developer', 'viewer'] as const) {
      const { token } = await api.member(tenant, role);
      for (const path of ['/v1/messages', '/v1/admin/messages']) {
        expect((await get(api.first, path, { token, slug: tenant.slug })).status).toBe(200);
      }
    }
  });

  test('a suspension refuses service keys and writes with 403, allows reads with a token, and can be ended', async () => {
    const suspended = await api.tenant();
    const owner = await api.member(suspended, 'owner');
    const change = async (reason: string | null) => {
      await moveSuspension(api.admin, suspended.tenantId, reason);
      api.first.notice('tenant', { tenantId: suspended.tenantId });
    };
    expect((await send(api.first, suspended.key, LEAST.sms)).status).toBe(202);
    await change('billing');
    const SUSPENDED = {
      status: 403,
      body: { statusCode: 403, code: 'tenant_suspended', message: 'Tenant is suspended' },
    };
    expect(await send(api.first, suspended.key, LEAST.sms)).toMatchObject(SUSPENDED);
    expect(await get(api.first, '/v1/messages', suspended.key)).toMatchObject(SUSPENDED);
    const credential = { token: owner.token, slug: suspended.slug };
    expect((await get(api.first, '/v1/admin/messages', credential)).status).toBe(200);
    const write = await request(api.first, 'POST', '/v1/admin/api-keys', {
      body: { name: 'Key' },
      headers: { authorization: `Bearer ${owner.token}`, 'x-tenant-slug': suspended.slug },
    });
    expect(write).toMatchObject(SUSPENDED);
    await change(null);
    expect((await send(api.first, suspended.key, LEAST.sms)).status).toBe(202);
  });

  test('a suspension applies in a process that received no notice', async () => {
    const suspended = await api.tenant();
    expect((await send(api.first, suspended.key, LEAST.sms)).status).toBe(202);
    await moveSuspension(api.admin, suspended.tenantId, 'abuse');
    expect((await send(api.first, suspended.key, LEAST.sms)).status).toBe(403);
  });
});

test('while the issuer is down, cached signing keys verify tokens, and a process without them answers 503', async () => {
  await using lonely = await startTestApi();
  const token = await lonely.token('ann');
  const me = (bearer: string) =>
    request(lonely.first, 'GET', '/v1/admin/me', { headers: { authorization: `Bearer ${bearer}` } });
  expect((await me(token)).status).toBe(200);
  const fresh = await lonely.instance();
  await lonely.issuer.stop();
  expect((await me(await lonely.token('bob'))).status).toBe(200);
  expect(
    await request(fresh, 'GET', '/v1/admin/me', { headers: { authorization: `Bearer ${token}` } }),
  ).toMatchObject({
    status: 503,
    body: { code: 'dependency_unavailable' },
    headers: { 'retry-after': expect.any(String) },
  });
});
