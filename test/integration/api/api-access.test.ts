import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROLES, type Role } from '#core/domain/tenant/role.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';
import type { Reply } from '#test/support/api.ts';
import { routesOf } from '#test/support/routes-of.ts';

/**
 * Who may call each route: a role of the tenant, any signed-in `user`, a service `key`, a key or viewer (`either`), or a key or
 * developer (`sender`).
 */
const ACCESS = {
  'POST /v1/messages': 'key',
  'POST /v1/messages/batch': 'key',
  'POST /v1/messages/:id/cancel': 'sender',
  'PATCH /v1/messages/:id': 'sender',
  'POST /v1/messages/test-clock': 'key',
  'POST /v1/messages/cancel': 'sender',
  'GET /v1/messages': 'either',
  'GET /v1/messages/:id': 'either',
  'GET /v1/messages/:id/attempts': 'either',
  'GET /v1/messages/:id/events': 'either',
  'GET /v1/admin/messages': 'either',
  'GET /v1/admin/messages/:id': 'either',
  'GET /v1/admin/messages/:id/attempts': 'either',
  'GET /v1/admin/messages/:id/events': 'either',
  'POST /v1/admin/messages/:id/retry': 'developer',
  'DELETE /v1/admin/messages/:id/content': 'admin',
  'GET /v1/events': 'key',
  'GET /v1/admin/events': 'viewer',
  'GET /v1/admin/event-types': 'viewer',
  'GET /v1/admin/me': 'user',
  'POST /v1/admin/tenants': 'user',
  'GET /v1/admin/tenants': 'user',
  'GET /v1/admin/tenants/:id': 'user',
  'PATCH /v1/admin/tenants/:id': 'user',
  'DELETE /v1/admin/tenants/:id': 'user',
  'POST /v1/admin/tenants/:id/suspend': 'user',
  'POST /v1/admin/tenants/:id/resume': 'user',
  'POST /v1/admin/tenants/:id/lift-brake': 'user',
  'GET /v1/admin/members': 'admin',
  'PUT /v1/admin/members': 'admin',
  'GET /v1/admin/members/:userId': 'admin',
  'PUT /v1/admin/members/:userId': 'admin',
  'DELETE /v1/admin/members/:userId': 'admin',
  'GET /v1/admin/provider-catalog': 'viewer',
  'POST /v1/admin/providers': 'admin',
  'GET /v1/admin/providers': 'viewer',
  'GET /v1/admin/providers/:id': 'viewer',
  'GET /v1/admin/providers/:id/health': 'viewer',
  'PATCH /v1/admin/providers/:id': 'admin',
  'DELETE /v1/admin/providers/:id': 'admin',
  'PUT /v1/admin/providers/:id/secret': 'admin',
  'POST /v1/admin/providers/:id/rotate-receipt-url': 'admin',
  'POST /v1/admin/providers/:id/verify': 'admin',
  'POST /v1/admin/providers/:id/enable': 'admin',
  'POST /v1/admin/providers/:id/disable': 'admin',
  'GET /v1/admin/routes/:channel': 'viewer',
  'POST /v1/admin/routes/:channel/simulate': 'viewer',
  'PUT /v1/admin/routes/:channel': 'admin',
  'POST /v1/admin/api-keys': 'admin',
  'GET /v1/admin/api-keys': 'admin',
  'GET /v1/admin/api-keys/:id': 'admin',
  'PATCH /v1/admin/api-keys/:id': 'admin',
  'DELETE /v1/admin/api-keys/:id': 'admin',
  'POST /v1/admin/api-keys/:id/rotate': 'admin',
  'POST /v1/admin/webhook-endpoints': 'admin',
  'GET /v1/admin/webhook-endpoints': 'viewer',
  'GET /v1/admin/webhook-endpoints/:id': 'viewer',
  'PATCH /v1/admin/webhook-endpoints/:id': 'admin',
  'DELETE /v1/admin/webhook-endpoints/:id': 'admin',
  'POST /v1/admin/webhook-endpoints/:id/rotate-secret': 'admin',
  'POST /v1/admin/webhook-endpoints/:id/pause': 'admin',
  'POST /v1/admin/webhook-endpoints/:id/resume': 'admin',
  'POST /v1/admin/webhook-endpoints/:id/test': 'admin',
  'POST /v1/admin/webhook-endpoints/:id/recover': 'admin',
  'GET /v1/admin/webhook-endpoints/:id/deliveries': 'viewer',
  'GET /v1/admin/deliveries/:id': 'viewer',
  'POST /v1/admin/deliveries/:id/redeliver': 'admin',
  'POST /v1/admin/events/:id/replay': 'admin',
  'POST /v1/admin/webhook-keys/rotate': 'admin',
  'POST /v1/admin/suppressions': 'developer',
  'GET /v1/admin/suppressions': 'developer',
  'GET /v1/admin/suppressions/:id': 'developer',
  'DELETE /v1/admin/suppressions/:id': 'developer',
  'POST /v1/admin/suppressions/import': 'developer',
  'GET /v1/admin/suppressions/export': 'developer',
  'GET /v1/admin/usage': 'viewer',
  'GET /v1/admin/platform/usage': 'user',
  'GET /v1/admin/limits': 'viewer',
  'GET /v1/admin/audit-log': 'admin',
} as const satisfies Record<string, Role | 'user' | 'key' | 'either' | 'sender'>;

/** Routes without authentication: the service's own description, public keys, and routes with a token in the path. */
const OPEN =
  /^GET \/(?:(?:docs|v1\/openapi\.json)(?:\/|$)|v1\/webhook-keys\/|$)|^(?:GET|POST) \/v1\/(?:receipts|unsubscribe)\//;

type RouteName = keyof typeof ACCESS;
const NAMES = Object.keys(ACCESS) as RouteName[];
const KEYED: readonly string[] = ['key', 'either', 'sender'];
const TENANT_BOUND = NAMES.filter((name) => ACCESS[name] !== 'user' && ACCESS[name] !== 'key');

let api: AdminApi;
let tenant: TestTenant;
let suspended: TestTenant;
let serviceKey: string;
let suspendedKey: string;

beforeAll(async () => {
  api = await startAdminApi();
  tenant = await api.tenant();
  suspended = await api.tenant();
  const keyOf = async (of: TestTenant): Promise<string> =>
    (await api.callAs('admin', of, 'POST', '/v1/admin/api-keys', { name: 'Access' })).body.key;
  serviceKey = await keyOf(tenant);
  suspendedKey = await keyOf(suspended);
  await api.call('POST', `/v1/admin/tenants/${suspended.id}/suspend`, { as: api.platformAdmin });
});
afterAll(() => api[Symbol.asyncDispose]());

type Credential = { as?: TestTenant['members'][Role]; slug?: string; headers?: Record<string, string> };

/** Calls a route with random ids, so that an admitted call changes nothing. */
function call(name: RouteName, credential: Credential): Promise<Reply> {
  const [method = '', path = ''] = name.split(' ');
  const url = path.replace(/:\w+/g, () => randomUUID());
  return api.call(method, url, {
    ...credential,
    ...(method === 'GET' || method === 'DELETE' ? {} : { body: {} }),
    headers: {
      ...(path.endsWith('/import') ? { 'content-type': 'application/x-ndjson' } : {}),
      ...credential.headers,
    },
  });
}

/** A simulation has a body, and changes nothing. */
const isRead = (name: RouteName): boolean => name.startsWith('GET ') || name.endsWith('/simulate');
const answer = ({ status, body }: Reply): string => `${status} ${body?.code}`;

describe('access control by route', () => {
  test('is listed in this file for exactly the routes that are served', () => {
    const served = routesOf(api.app)
      .map(({ method, path }) => `${method} ${path}`)
      .filter((name) => !OPEN.test(name));
    expect(served.toSorted()).toEqual(NAMES.toSorted());
  });

  test.each(NAMES)('%s refuses a caller without credentials with 401', async (name) => {
    const reply = await call(name, {});
    expect(answer(reply)).toBe('401 unauthenticated');
    expect(reply.body).toMatchObject({
      statusCode: 401,
      message: expect.stringMatching(/^Missing or invalid authentication: /),
    });
  });

  test.each(NAMES)('%s refuses forged tokens and keys with 401', async (name) => {
    const { subject } = tenant.members.owner;
    const token = await api.issuer.mint({ sub: subject, audience: 'despatch', forged: true });
    const forged = await call(name, { slug: tenant.slug, headers: { authorization: `Bearer ${token}` } });
    const guessed = await call(name, { headers: { 'x-service-key': `${serviceKey.slice(0, -1)}!` } });
    expect([answer(forged), answer(guessed)]).toEqual(['401 unauthenticated', '401 unauthenticated']);
  });

  test.each(NAMES.filter((name) => !KEYED.includes(ACCESS[name])))(
    '%s refuses a service key with 401',
    async (name) => {
      expect(answer(await call(name, { headers: { 'x-service-key': serviceKey } }))).toBe(
        '401 unauthenticated',
      );
    },
  );

  test.each(NAMES.filter((name) => ACCESS[name] === 'key'))('%s refuses a bearer with 401', async (name) => {
    expect(answer(await call(name, { as: tenant.members.owner, slug: tenant.slug }))).toBe(
      '401 unauthenticated',
    );
  });

  test.each(TENANT_BOUND)('%s refuses a missing, an unknown and a foreign tenant slug', async (name) => {
    const as = await api.person();
    const replies = [
      await call(name, { as }),
      await call(name, { as, slug: 'no-such-tenant' }),
      await call(name, { as, slug: tenant.slug }),
    ];
    expect(replies.map(answer)).toEqual(['400 tenant_required', '404 not_found', '404 not_found']);
    const [unknown, notOwn] = replies.slice(1).map(({ body }) => body.message as string);
    expect(unknown).toBe('Resource not found: X-Tenant-Slug names no tenant of yours');
    expect(notOwn).toBe(unknown);
  });

  test.each(TENANT_BOUND)(
    '%s admits its minimum role and higher ones, and answers 403 to lower ones',
    async (name) => {
      const access = ACCESS[name];
      const needed = { either: 'viewer', sender: 'developer' }[access as string] ?? access;
      for (const role of ROLES) {
        const reply = await call(name, { as: tenant.members[role], slug: tenant.slug });
        const isAdmitted = ROLES.indexOf(role) <= ROLES.indexOf(needed as Role);
        if (isAdmitted) expect([200, 201, 400, 404]).toContain(reply.status);
        else
          expect([answer(reply), reply.body.message]).toEqual([
            '403 insufficient_role',
            `Role '${needed}' is required`,
          ]);
      }
    },
  );

  test.each(TENANT_BOUND)(
    '%s for a suspended tenant is refused if it writes and allowed if it reads',
    async (name) => {
      const reply = await call(name, { as: suspended.members.owner, slug: suspended.slug });
      if (isRead(name)) expect([200, 404]).toContain(reply.status);
      else expect(answer(reply)).toBe('403 tenant_suspended');
    },
  );

  test.each(NAMES.filter((name) => KEYED.includes(ACCESS[name])))(
    '%s refuses the key of a suspended tenant with 403',
    async (name) => {
      expect(answer(await call(name, { headers: { 'x-service-key': suspendedKey } }))).toBe(
        '403 tenant_suspended',
      );
    },
  );
});

describe('admin requests per minute', () => {
  test("of all users of a tenant are accepted up to exactly the tenant's limit", async () => {
    const own = await api.tenant({ adminRequestsPerMinute: 5 });
    const replies = await Promise.all(
      Array.from({ length: 9 }, (_, i) =>
        api.callAs(ROLES[i % 4] ?? 'owner', own, 'GET', '/v1/admin/limits'),
      ),
    );
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(5);
    const refused = replies.find(({ status }) => status === 429);
    expect(refused?.body.code).toBe('rate_limited');
    expect(Number(refused?.headers['retry-after'])).toBeGreaterThanOrEqual(1);
    expect(Number(refused?.headers['retry-after'])).toBeLessThanOrEqual(61);
  });

  test("with foreign or unknown slugs are limited to 60 per user; the user's own tenant stays reachable", async () => {
    const as = tenant.members.viewer;
    const slugs = Array.from({ length: 62 }, (_, i) =>
      i % 3 === 0 ? suspended.slug : i % 3 === 1 ? `guess-${i}` : `No Slug ${i}`,
    );
    // A membership that the api has not known for some seconds has to be looked up, and counts until then as well.
    expect((await api.call('GET', '/v1/admin/limits', { as, slug: tenant.slug })).status).toBe(200);
    const replies = await Promise.all(slugs.map((slug) => api.call('GET', '/v1/admin/limits', { as, slug })));
    const answers = replies.map(answer);
    expect(answers.filter((one) => one === '404 not_found')).toHaveLength(60);
    expect(answers.filter((one) => one === '429 rate_limited')).toHaveLength(2);
    expect((await api.call('GET', '/v1/admin/me', { as })).status).toBe(429);
    expect((await api.call('GET', '/v1/admin/limits', { as, slug: tenant.slug })).status).toBe(200);
  });

  test('without a tenant are limited to 60 per user', async () => {
    const as = await api.person();
    const replies = await Promise.all(
      Array.from({ length: 62 }, () => api.call('GET', '/v1/admin/me', { as })),
    );
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(60);
    expect(replies.filter(({ status }) => status === 429)).toHaveLength(2);
  });
});
