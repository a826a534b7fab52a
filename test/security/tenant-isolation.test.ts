import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  startAdminApi,
  type AdminApi,
  type CallOptions,
  type Reply,
  type TestTenant,
} from '#test/support/admin-api.ts';
import { routesOf, type ServedRoute } from '#test/support/routes-of.ts';

/** A tenant's things: what another tenant must neither see nor move. */
type Estate = TestTenant & {
  readonly serviceKey: string;
  readonly ids: { readonly provider: string; readonly key: string; readonly message: string };
  /** What would give an answer away that holds anything of this tenant. */
  readonly marks: readonly string[];
};

const SECRET = 'isolation0canary';
/** Which of the other tenant's ids stands in a path. */
const PARAMETERS: readonly (readonly [RegExp, (of: Estate) => string])[] = [
  [/^\/v1\/admin\/providers\/:id/, ({ ids }) => ids.provider],
  [/^\/v1\/admin\/api-keys\/:id/, ({ ids }) => ids.key],
  [/^\/v1\/admin\/tenants\/:id/, ({ id }) => id],
  [/^\/v1\/admin\/members\/:userId/, ({ members }) => members.developer.userId],
  [/^\/v1(?:\/admin)?\/messages\/:id/, ({ ids }) => ids.message],
];
/** What a write needs in order to be refused for nothing but the tenant. */
const BODIES: Readonly<Record<string, (of: Estate) => unknown>> = {
  'POST /v1/messages': () => ({ channel: 'sms', to: '+15550000001', body: 'Mine' }),
  'POST /v1/admin/tenants': ({ id }) => ({ name: 'Another', slug: `another-${id}` }),
  'PATCH /v1/admin/tenants/:id': () => ({ name: 'Taken over' }),
  'PUT /v1/admin/members': () => ({ email: 'friend@example.org', role: 'viewer' }),
  'PUT /v1/admin/members/:userId': () => ({ role: 'viewer' }),
  'POST /v1/admin/providers': () => ({ provider: 'simulator-sms', label: 'Mine', secretConfig: {} }),
  'PATCH /v1/admin/providers/:id': () => ({ label: 'Taken over' }),
  'PUT /v1/admin/providers/:id/secret': () => ({ secretConfig: { authToken: 'x' } }),
  'POST /v1/admin/api-keys': () => ({ name: 'Mine' }),
  'PATCH /v1/admin/api-keys/:id': () => ({ name: 'Taken over' }),
};
const OPEN = /^\/(?:docs|v1\/openapi\.json)(?:\/|$)/;

let api: AdminApi;
let a: Estate;
let b: Estate;
let routes: ServedRoute[];

beforeAll(async () => {
  api = await startAdminApi();
  a = await settle('alpha');
  b = await settle('beta');
  routes = routesOf(api.app).filter(({ path }) => !OPEN.test(path));
});
afterAll(() => api[Symbol.asyncDispose]());

async function settle(word: string): Promise<Estate> {
  const tenant = await api.tenant();
  const made = async (url: string, body: unknown) =>
    (await api.callAs('owner', tenant, 'POST', url, body)).body;
  const provider = await made('/v1/admin/providers', {
    provider: 'twilio',
    label: `${word}-label`,
    publicConfig: { accountSid: `AC${'0'.repeat(32)}`, from: '+15550000001', note: `${word}-note` },
    secretConfig: { authToken: SECRET },
  });
  const key = await made('/v1/admin/api-keys', { name: `${word}-key` });
  const message = await api.call('POST', '/v1/messages', {
    headers: { 'x-service-key': key.key },
    body: { channel: 'sms', to: '+15550000777', body: `${word}-text`, externalId: `${word}-external` },
  });
  expect(message.status).toBe(202);
  const people = Object.values(tenant.members).flatMap(({ userId, subject }) => [userId, subject]);
  const ids = { provider: provider.id, key: key.id, message: message.body.id };
  return {
    ...tenant,
    serviceKey: key.key,
    ids,
    marks: [tenant.id, tenant.slug, ...Object.values(ids), key.prefix, `${word}-`, ...people],
  };
}

/** Every row of a tenant, in every table that has such rows. Requests per minute are the caller's to spend. */
async function rowsOf({ id }: Estate): Promise<Record<string, unknown[]>> {
  const tables = await api.admin<{ name: string }[]>`
    select c.relname as name from pg_class c join pg_attribute t on t.attrelid = c.oid and t.attname = 'tenant_id'
    where c.relnamespace = 'despatch'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition order by 1`;
  const rows: Record<string, unknown[]> = {};
  for (const { name } of tables) {
    const found = await api.admin<{ row: unknown }[]>`
      select to_jsonb(t) - 'last_used_at' as row from ${api.admin(name)} t where tenant_id = ${id} order by to_jsonb(t)::text`;
    rows[name] = found.map(({ row }) => row);
  }
  rows['tenants'] = [...(await api.admin`select * from tenants where id = ${id}`)];
  return rows;
}

/** A call to a route with the ids of `target` in its path. */
function reach({ method, path }: ServedRoute, target: Estate, caller: CallOptions): Promise<Reply> {
  const id = PARAMETERS.find(([pattern]) => pattern.test(path))?.[1](target);
  if (path.includes(':') && id === undefined) throw new Error(`${path} has an id that is not known here`);
  const body = BODIES[`${method} ${path}`]?.(target);
  return api.call(method, path.replace(/:\w+/, id ?? ''), { ...caller, body });
}

const holdsAnyOf = (of: Estate, { text }: Reply): string[] => of.marks.filter((mark) => text.includes(mark));

describe('tenant A reaches nothing of tenant B', () => {
  test('the marks and ids are good: B itself reaches all of it', async () => {
    const owner = { as: b.members.owner, slug: b.slug };
    for (const route of routes.filter(
      ({ method, path }) => method === 'GET' && path !== '/v1/admin/provider-catalog',
    )) {
      const reply = await reach(route, b, owner);
      expect(reply.status).toBe(200);
      const isNamed = [
        '/v1/admin/limits',
        '/v1/messages/:id/attempts',
        '/v1/admin/messages/:id/attempts',
        '/v1/messages/:id/events',
        '/v1/admin/messages/:id/events',
      ].includes(route.path);
      if (!isNamed) expect(holdsAnyOf(b, reply)).not.toEqual([]);
    }
  });

  test("with B's ids in every path there is, by token and by key", async () => {
    const before = await rowsOf(b);
    const tried: string[] = [];
    for (const route of routes.filter(({ path }) => path.includes(':'))) {
      const callers: CallOptions[] = [
        { as: a.members.owner, slug: a.slug },
        { headers: { 'x-service-key': a.serviceKey } },
      ];
      for (const caller of callers) {
        const reply = await reach(route, b, caller);
        tried.push(`${route.method} ${route.path} ${reply.status}`);
        expect(reply.body).toMatchObject({ message: expect.any(String), statusCode: reply.status });
        expect([401, 404]).toContain(reply.status);
        const { path: _, ...rest } = reply.body as { path: string };
        expect(holdsAnyOf(b, { ...reply, text: JSON.stringify(rest) })).toEqual([]);
      }
    }
    expect(tried.length).toBeGreaterThan(40);
    expect(tried.filter((line) => line.endsWith('404')).length).toBeGreaterThanOrEqual(tried.length / 2);
    expect(await rowsOf(b)).toEqual(before);
  });

  test("by every route without an id: no answer holds anything of B's, and no write touches it", async () => {
    const before = await rowsOf(b);
    for (const route of routes.filter(({ path }) => !path.includes(':'))) {
      const callers: CallOptions[] = [
        { as: a.members.owner, slug: a.slug },
        { headers: { 'x-service-key': a.serviceKey } },
      ];
      for (const caller of callers) {
        const reply = await reach(route, a, caller);
        expect([200, 201, 202, 401]).toContain(reply.status);
        expect(holdsAnyOf(b, reply)).toEqual([]);
      }
    }
    expect(await rowsOf(b)).toEqual(before);
  });

  test("under B's slug there is nothing at all", async () => {
    const before = await rowsOf(b);
    for (const route of routes.filter(({ path }) => !/^\/v1\/admin\/(?:me|tenants)/.test(path))) {
      const reply = await reach(route, b, { as: a.members.owner, slug: b.slug });
      expect([401, 404]).toContain(reply.status);
    }
    expect(await rowsOf(b)).toEqual(before);
  });

  test("by filters that name what is B's", async () => {
    const filters = [
      `/v1/admin/messages?providerId=${b.ids.provider}`,
      '/v1/admin/messages?externalId=beta-external',
      '/v1/admin/messages?to=%2B15550000777',
      `/v1/admin/audit-log?actor=${b.members.owner.userId}`,
    ];
    for (const url of filters) {
      const reply = await api.callAs('owner', a, 'GET', url);
      expect(reply.status).toBe(200);
      expect(holdsAnyOf(b, reply)).toEqual([]);
    }
  });

  test("by B's cursors", async () => {
    await api.callAs('owner', b, 'POST', '/v1/admin/api-keys', { name: 'Second' });
    const page = await api.callAs('owner', b, 'GET', '/v1/admin/api-keys?limit=1');
    expect(page.body.nextCursor).toEqual(expect.any(String));
    const reply = await api.callAs('owner', a, 'GET', `/v1/admin/api-keys?cursor=${page.body.nextCursor}`);
    expect([reply.status, reply.body.code]).toEqual([400, 'invalid_cursor']);
  });

  test("by B's idempotency keys", async () => {
    const create = (tenant: Estate) =>
      api.callAs('owner', tenant, 'POST', '/v1/admin/api-keys', { name: 'Same' }, 'the-same-key');
    const [mine, theirs] = [await create(a), await create(b)];
    expect([mine.status, theirs.status]).toEqual([201, 201]);
    expect(mine.body.key).not.toBe(theirs.body.key);
  });

  test("by sending over B's provider", async () => {
    const reply = await api.call('POST', '/v1/messages', {
      headers: { 'x-service-key': a.serviceKey },
      body: { channel: 'sms', to: '+15550000001', body: 'Hello', providerId: b.ids.provider },
    });
    expect([reply.status, holdsAnyOf(b, reply)]).toEqual([400, []]);
  });
});

test('no line of the log held a secret', () => {
  expect(api.logLines.length).toBeGreaterThan(0);
  expect(api.logLines.join('\n')).not.toContain(SECRET);
});
