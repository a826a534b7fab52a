import { randomUUID } from 'node:crypto';
import * as fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ROLES, type Role } from '#core/domain/tenant/role.ts';
import { startAdminApi, type AdminApi, type CallOptions } from '#test/support/admin-api.ts';
import type { Reply } from '#test/support/api.ts';
import { routesOf, type ServedRoute } from '#test/support/routes-of.ts';
import { seedMarkedTenant, strangerNames, type MarkedTenant, type Names } from './seed-marked-tenant.ts';
import { rowsOf } from './tenant-rows.ts';

/** Fixed, so that every run makes the same calls. */
const SEED = 20_260_701;
const CALLS_PER_ROUTE = 16;

/** Which name each path parameter takes. */
const PARAMETERS: readonly (readonly [RegExp, (of: Names) => string])[] = [
  [/^\/v1\/admin\/providers\/:id/, ({ accountId }) => accountId],
  [/^\/v1\/admin\/webhook-endpoints\/:id/, ({ endpointId }) => endpointId],
  [/^\/v1\/admin\/events\/:id/, ({ eventId }) => eventId],
  [/^\/v1\/admin\/deliveries\/:id/, ({ deliveryId }) => deliveryId],
  [/^\/v1\/admin\/api-keys\/:id/, ({ keyId }) => keyId],
  [/^\/v1\/admin\/tenants\/:id/, ({ tenantId }) => tenantId],
  [/^\/v1\/admin\/suppressions\/:id/, ({ suppressionId }) => suppressionId],
  [/^\/v1\/admin\/members\/:userId/, ({ userId }) => userId],
  [/^\/v1(?:\/admin)?\/messages\/:id/, ({ messageId }) => messageId],
];
/** Valid bodies, so that a write is refused because of the tenant alone. */
const BODIES: Readonly<Record<string, () => Record<string, unknown>>> = {
  'POST /v1/admin/events/:id/replay': () => ({ endpointId: a.names.endpointId }),
  'POST /v1/messages/batch': () => ({
    messages: [{ channel: 'sms', to: '+15550000001', body: 'Mine' }],
  }),
  'POST /v1/admin/messages/:id/retry': () => ({}),
  'POST /v1/messages': () => ({ channel: 'sms', to: '+15550000001', body: 'Mine' }),
  'PATCH /v1/messages/:id': () => ({ sendAt: new Date(Date.now() + 3_600_000).toISOString() }),
  'POST /v1/messages/test-clock': () => ({ advance: '1h' }),
  // Matches none of A's messages: a cancel would succeed once and find nothing the second time.
  'POST /v1/messages/cancel': () => ({ filter: { externalId: b.names.externalId } }),
  'POST /v1/admin/tenants': () => ({ name: 'Another', slug: `another-${randomUUID()}` }),
  'PATCH /v1/admin/tenants/:id': () => ({ name: 'Taken over' }),
  'POST /v1/admin/tenants/:id/suspend': () => ({ reason: 'abuse' }),
  'POST /v1/admin/tenants/:id/lift-brake': () => ({ channel: 'sms' }),
  'PUT /v1/admin/members': () => ({ email: 'friend@example.org', role: 'viewer' }),
  'PUT /v1/admin/members/:userId': () => ({ role: 'viewer' }),
  'POST /v1/admin/providers': () => ({ provider: 'simulator-sms', label: 'Mine', secretConfig: {} }),
  'PATCH /v1/admin/providers/:id': () => ({ label: 'Taken over' }),
  'PUT /v1/admin/providers/:id/secret': () => ({ secretConfig: { authToken: 'x'.repeat(32) } }),
  'POST /v1/admin/providers/:id/rotate-receipt-url': () => ({ graceSeconds: 0 }),
  'PUT /v1/admin/routes/:channel': () => ({
    strategy: 'priority',
    steps: [{ providerId: b.names.accountId }],
  }),
  'POST /v1/admin/routes/:channel/simulate': () => ({
    draft: { strategy: 'priority', steps: [{ providerId: b.names.accountId }] },
  }),
  'POST /v1/admin/webhook-endpoints': () => ({ url: 'https://example.com/', eventTypes: ['*'] }),
  'PATCH /v1/admin/webhook-endpoints/:id': () => ({ description: 'Taken over' }),
  'POST /v1/admin/webhook-endpoints/:id/rotate-secret': () => ({ graceSeconds: 0 }),
  'POST /v1/admin/webhook-endpoints/:id/recover': () => ({ since: '2020-01-01T00:00:00Z' }),
  'POST /v1/admin/webhook-keys/rotate': () => ({}),
  'POST /v1/admin/suppressions': () => ({ channel: 'sms', address: '+15550000001' }),
  // The address exists already, so the answer is the same each time.
  'POST /v1/admin/suppressions/import': () => ({ channel: 'sms', address: a.names.to }),
  'POST /v1/admin/api-keys': () => ({ name: 'Mine' }),
  'PATCH /v1/admin/api-keys/:id': () => ({ name: 'Taken over' }),
  'POST /v1/admin/api-keys/:id/rotate': () => ({ graceSeconds: 60 }),
};
/** Fields that a careless route could read as the tenant's own. */
const FIELDS = {
  tenantId: ({ tenantId }: Names) => tenantId,
  tenant_id: ({ tenantId }: Names) => tenantId,
  id: ({ accountId }: Names) => accountId,
  providerId: ({ accountId }: Names) => accountId,
  provider_id: ({ accountId }: Names) => accountId,
  apiKeyId: ({ keyId }: Names) => keyId,
  endpointId: ({ endpointId }: Names) => endpointId,
  userId: ({ userId }: Names) => userId,
  owner: ({ userId }: Names) => userId,
  messageId: ({ messageId }: Names) => messageId,
  parentMessageId: ({ messageId }: Names) => messageId,
} as const;
const FILTERS = {
  ...FIELDS,
  externalId: ({ externalId }: Names) => externalId,
  external_id: ({ externalId }: Names) => externalId,
  to: ({ to }: Names) => to,
  actor: ({ userId }: Names) => userId,
  slug: ({ slug }: Names) => slug,
} as const;
/** Routes without an authenticated tenant: receipts have a test of their own, and public keys are public. */
const OPEN = /^\/(?:(?:docs|v1\/(?:openapi\.json|receipts|unsubscribe|webhook-keys))(?:\/|$)|$)/;
/** Routes of a user; they ignore the tenant that `X-Tenant-Slug` names. */
const TENANTLESS = /^\/v1\/admin\/(?:me|tenants|platform)(?:\/|$)/;
/** Routes for platform admins only. */
const OF_PLATFORM = /^\/v1\/admin\/platform\//;

type CallerKind = 'key' | 'test key' | Role;
/** Where the foreign names stand in a request. */
type Shape = {
  readonly caller: CallerKind;
  readonly slug: 'own' | 'foreign' | 'id' | 'none';
  readonly isForeignPath: boolean;
  readonly filters: readonly (keyof typeof FILTERS)[];
  readonly fields: readonly (keyof typeof FIELDS)[];
  readonly cursor: number;
  readonly isForeignHeader: boolean;
};

const shape: fc.Arbitrary<Shape> = fc.record({
  caller: fc.constantFrom<CallerKind[]>('key', 'test key', ...ROLES),
  slug: fc.oneof(
    { arbitrary: fc.constant('own' as const), weight: 5 },
    { arbitrary: fc.constantFrom('foreign' as const, 'id' as const, 'none' as const), weight: 3 },
  ),
  isForeignPath: fc.boolean(),
  filters: fc.subarray(Object.keys(FILTERS) as (keyof typeof FILTERS)[], { maxLength: 3 }),
  fields: fc.subarray(Object.keys(FIELDS) as (keyof typeof FIELDS)[], { maxLength: 4 }),
  // Mostly out of range, so that there is no cursor: a foreign cursor fails a call before anything else is checked.
  cursor: fc.integer({ min: -24, max: 7 }),
  isForeignHeader: fc.boolean(),
});

let api: AdminApi;
let a: MarkedTenant;
let b: MarkedTenant;
let routes: ServedRoute[];

beforeAll(async () => {
  api = await startAdminApi();
  a = await seedMarkedTenant(api);
  b = await seedMarkedTenant(api);
  routes = routesOf(api.app).filter(({ path }) => !OPEN.test(path));
});
afterAll(() => api[Symbol.asyncDispose]());

const nameOf = ({ method, path }: ServedRoute): string => `${method} ${path}`;
/** Whether the path contains an id. A channel belongs to no tenant. */
const hasId = ({ path }: ServedRoute): boolean => path.replace(':channel', '').includes(':');

function pathOf({ path }: ServedRoute, names: Names): string {
  if (path.includes(':channel')) return path.replace(':channel', 'sms');
  if (!path.includes(':')) return path;
  const id = PARAMETERS.find(([pattern]) => pattern.test(path))?.[1](names);
  if (id === undefined) throw new Error(`${path} has an id that is not known here`);
  return path.replace(/:\w+/, id);
}

/**
 * Whether the path names a foreign object. Writes always do: a write to A's own object answers differently the second time, and
 * the comparison would prove nothing.
 */
function isForeignPath(route: ServedRoute, of: Shape): boolean {
  return hasId(route) && (of.isForeignPath || route.method !== 'GET');
}

/** Calls as tenant A; every foreign name in the request is one of `names`. */
async function reach(route: ServedRoute, of: Shape, names: Names): Promise<Reply> {
  const query = new URLSearchParams(
    Object.fromEntries(of.filters.map((name) => [name, FILTERS[name](names)])),
  );
  const cursor = names.cursors[of.cursor];
  if (cursor !== undefined) query.set('cursor', cursor);
  const url = `${pathOf(route, isForeignPath(route, of) ? names : a.names)}?${query.toString()}`;
  const plain = BODIES[nameOf(route)]?.();
  const body = plain && {
    ...plain,
    ...Object.fromEntries(of.fields.map((name) => [name, FIELDS[name](names)])),
  };
  const headers = {
    ...(of.isForeignHeader
      ? { 'x-tenant-id': names.tenantId, 'x-forwarded-tenant': names.slug, 'x-user-id': names.userId }
      : {}),
    ...(route.path.endsWith('/import') ? { 'content-type': 'application/x-ndjson' } : {}),
  };
  return api.call(route.method, url, { ...credentialsOf(of, names, headers), body });
}

function credentialsOf(of: Shape, names: Names, headers: Record<string, string>): CallOptions {
  const slug = { own: a.slug, foreign: names.slug, id: names.tenantId, none: undefined }[of.slug];
  if (of.caller !== 'key' && of.caller !== 'test key') return { as: a.members[of.caller], slug, headers };
  const key = of.caller === 'key' ? a.serviceKeys.live : a.serviceKeys.test;
  return { slug, headers: { ...headers, 'x-service-key': key } };
}

/** Everything by which a caller could tell two answers apart, without the values that differ between any two calls. */
function seenOf({ status, text, headers }: Reply): unknown {
  const even = (value: string): string =>
    value
      .replace(/[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g, '<uuid>')
      .replace(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, '<time>')
      .replace(/dsp_(live|test)_\w+/g, 'dsp_$1_<key>')
      .replace(/whsec_[\w+/]+=/g, 'whsec_<secret>')
      .replace(/"x":"[\w-]{43}"/g, '"x":"<key>"')
      .replace(/another-<uuid>/g, '<slug>')
      .replace(/\/receipts\/<uuid>\/[^"]+/g, '/receipts/<uuid>/<token>')
      .replace(/"requestId":"[^"]*"/, '"requestId":"<id>"')
      .replace(/"path":"[^"]*"/, '"path":"<path>"');
  const named = Object.entries(headers).filter(
    ([name]) => !/^(?:date|x-request-id|content-length|ratelimit-.*)$/.test(name),
  );
  return { status, headers: Object.fromEntries(named), body: even(text) };
}

/** The marks of B in an answer, outside the `path` field, which repeats the request. */
function leaksOf({ text, headers }: Reply): string[] {
  const all = text.replace(/"path":"[^"]*"/, '') + JSON.stringify(headers);
  return b.marks.filter((mark) => all.includes(mark));
}

/** Routes that accept no bearer token. */
const KEYS_ONLY = new Set([
  'POST /v1/messages',
  'POST /v1/messages/batch',
  'POST /v1/messages/test-clock',
  'GET /v1/events',
]);

/** Clears the rate windows: limits per minute have tests of their own and would hide the checks behind them. */
const forgetRates = () => api.admin`truncate rate_windows`;

/**
 * Returns the names with a fresh object where a call can succeed only once: a key that is being rotated is not rotated again, and
 * secrets count their versions.
 */
async function namesFor({ path }: ServedRoute, of: MarkedTenant): Promise<Names> {
  if (path.endsWith('/rotate-secret')) {
    const body = { url: 'https://example.com/', eventTypes: ['*'] };
    const made = await api.call('POST', '/v1/admin/webhook-endpoints', {
      as: of.members.owner,
      slug: of.slug,
      body,
    });
    return { ...of.names, endpointId: made.body.id };
  }
  if (path.endsWith('/retry')) {
    const headers = { 'x-service-key': of.serviceKeys.live };
    const sent = { channel: 'sms', to: '+15550000001', body: 'Mine' };
    const { body } = await api.call('POST', '/v1/messages', { headers, body: sent });
    await api.call('POST', `/v1/messages/${body.id}/cancel`, { headers });
    await api.admin`
      update message_results r set status = 'failed' from messages m where m.seq = r.seq and m.id = ${body.id}`;
    return { ...of.names, messageId: body.id };
  }
  if (!path.endsWith('/api-keys/:id/rotate')) return of.names;
  const call = { as: of.members.owner, slug: of.slug, body: { name: 'To be rotated' } };
  const { body } = await api.call('POST', '/v1/admin/api-keys', call);
  return { ...of.names, keyId: body.id };
}

describe('tenant A has no access to tenant B', () => {
  test('control: B itself can read all of its objects', async () => {
    const owner = { as: b.members.owner, slug: b.slug };
    for (const route of routes.filter((one) => one.method === 'GET' && !KEYS_ONLY.has(nameOf(one)))) {
      if (OF_PLATFORM.test(route.path)) continue;
      const reply = await api.call('GET', pathOf(route, b.names), owner);
      expect(reply.status).toBe(200);
      const isNameless = /provider-catalog$|event-types$|limits$|usage$|\/events$/.test(route.path);
      if (!isNameless) expect([nameOf(route), leaksOf(reply)]).not.toEqual([nameOf(route), []]);
    }
  });

  test('control: this test has a body for every route with a request body', async () => {
    const { body } = await api.call('GET', '/v1/openapi.json');
    const taking = Object.entries(body.paths as Record<string, Record<string, { requestBody?: unknown }>>)
      .flatMap(([path, methods]) =>
        Object.entries(methods).map(([method, { requestBody }]) => ({ path, method, requestBody })),
      )
      .filter(({ requestBody }) => requestBody !== undefined)
      .map(({ path, method }) => `${method.toUpperCase()} ${path.replace(/\{(\w+)\}/g, ':$1')}`);
    expect(taking.length).toBeGreaterThan(5);
    expect(
      taking.filter((name) => BODIES[name] === undefined && !/ \/v1\/(?:receipts|unsubscribe)\//.test(name)),
    ).toEqual([]);
  });

  test("random requests that name B's objects get no data of B, do not reveal them, and change no row of B", async () => {
    const before = await rowsOf(api.admin, b.id);
    const statuses = new Set<number>();
    for (const [i, route] of routes.entries()) {
      await forgetRates();
      await fc.assert(
        fc.asyncProperty(shape, async (of) => {
          const reply = await reach(route, of, b.names);
          const twin = await reach(route, of, strangerNames());
          statuses.add(reply.status);
          expect(reply.status).toBeLessThan(500);
          expect(reply.status).not.toBe(429);
          expect(leaksOf(reply)).toEqual([]);
          expect(seenOf(reply)).toEqual(seenOf(twin));
          const isKeyed = of.caller === 'key' || of.caller === 'test key';
          const isForeign =
            isForeignPath(route, of) || (of.slug !== 'own' && !isKeyed && !TENANTLESS.test(route.path));
          if (isForeign) expect([400, 401, 403, 404]).toContain(reply.status);
        }),
        { seed: SEED + i, numRuns: CALLS_PER_ROUTE },
      );
    }
    expect([...statuses]).toEqual(expect.arrayContaining([200, 201, 202, 400, 401, 403, 404]));
    expect(await rowsOf(api.admin, b.id)).toEqual(before);
  });

  test("B's ids in every path get 404 with every credential that the route accepts", async () => {
    const before = await rowsOf(api.admin, b.id);
    const answers: string[] = [];
    for (const route of routes.filter(hasId)) {
      await forgetRates();
      const foreign = {
        slug: 'own',
        isForeignPath: true,
        filters: [],
        fields: [],
        cursor: -1,
        isForeignHeader: false,
      } as const;
      for (const caller of ['owner', 'key'] as const) {
        const reply = await reach(route, { ...foreign, caller }, b.names);
        answers.push(`${nameOf(route)} ${caller} ${reply.status}`);
        const takesKeys =
          /^\/v1(?:\/admin)?\/messages\//.test(route.path) && !/\/(?:content|retry)$/.test(route.path);
        expect([nameOf(route), reply.status]).toEqual([
          nameOf(route),
          caller === 'key' && !takesKeys ? 401 : 404,
        ]);
      }
    }
    expect(answers.length).toBeGreaterThan(40);
    expect(await rowsOf(api.admin, b.id)).toEqual(before);
  });

  test("every tenant route under B's slug gets 404", async () => {
    const before = await rowsOf(api.admin, b.id);
    for (const route of routes.filter(({ path }) => !TENANTLESS.test(path))) {
      await forgetRates();
      const url = pathOf(route, b.names);
      const body = BODIES[nameOf(route)]?.();
      const reply = await api.call(route.method, url, { as: a.members.owner, slug: b.slug, body });
      expect([nameOf(route), reply.status]).toEqual([
        nameOf(route),
        KEYS_ONLY.has(nameOf(route)) ? 401 : 404,
      ]);
    }
    expect(await rowsOf(api.admin, b.id)).toEqual(before);
  });

  test("filters that name B's objects give empty lists", async () => {
    const filters = [
      (of: Names) => `/v1/admin/messages?providerId=${of.accountId}`,
      (of: Names) => `/v1/admin/messages?externalId=${of.externalId}`,
      (of: Names) => `/v1/admin/messages?to=${encodeURIComponent(of.to)}`,
      (of: Names) => `/v1/admin/suppressions?address=${encodeURIComponent(of.to)}`,
      (of: Names) => `/v1/admin/audit-log?actor=${of.userId}`,
    ];
    for (const filter of filters) {
      const reply = await api.callAs('owner', a, 'GET', filter(b.names));
      expect([reply.status, reply.body]).toEqual([200, { items: [], nextCursor: null }]);
      const own = await api.callAs(
        'owner',
        b,
        'GET',
        filter(b.names).replace(b.names.userId, b.members.owner.userId),
      );
      expect(own.body.items).not.toEqual([]);
    }
  });

  test("B's cursors are rejected on the list they were made for and on every other", async () => {
    const lists = routes.filter(
      ({ method, path }) =>
        method === 'GET' && /s$|audit-log$/.test(path) && !/limits$|event-types$|^\/v1\/events$/.test(path),
    );
    for (const route of lists) {
      for (const cursor of b.names.cursors) {
        const url = `${pathOf(route, a.names)}?cursor=${cursor}`;
        const reply = await api.call('GET', url, { as: a.members.owner, slug: a.slug });
        expect([nameOf(route), reply.status, reply.body.code]).toEqual([
          nameOf(route),
          400,
          'invalid_cursor',
        ]);
      }
      await forgetRates();
    }
    expect(lists.length).toBeGreaterThanOrEqual(9);
  });

  test("B's idempotency keys replay nothing for A, on every route that accepts one", async () => {
    const { body } = await api.call('GET', '/v1/openapi.json');
    const idempotent = routes.filter(({ method, path }) =>
      JSON.stringify(body.paths[path.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()] ?? null).includes(
        'parameters/IdempotencyKey',
      ),
    );
    expect(idempotent.map(nameOf)).toEqual(
      expect.arrayContaining(['POST /v1/messages', 'POST /v1/admin/providers', 'POST /v1/admin/api-keys']),
    );
    const idOf = ({ body }: Reply): unknown => body.id ?? body.kid ?? body.batchId;
    for (const route of idempotent) {
      const sent = BODIES[nameOf(route)]?.();
      const create = async (of: MarkedTenant, key: string): Promise<Reply> =>
        api.call(route.method, pathOf(route, await namesFor(route, of)), {
          ...(KEYS_ONLY.has(nameOf(route)) ? {} : { as: of.members.owner, slug: of.slug }),
          headers: { 'x-service-key': of.serviceKeys.live, 'idempotency-key': key },
          body: route.path === '/v1/admin/tenants' ? { ...sent, slug: `another-${randomUUID()}` } : sent,
        });
      const key = `the-same-${randomUUID()}`;
      const theirs = await create(b, key);
      const mine = await create(a, key);
      const fresh = await create(a, randomUUID());
      expect(theirs.status).toBeLessThan(300);
      expect(mine.headers['idempotent-replayed']).toBeUndefined();
      expect(idOf(mine)).not.toBe(idOf(theirs));
      expect(seenOf(mine)).toEqual(seenOf(fresh));
    }
  });

  test("sending through B's provider account fails like sending through an unknown one", async () => {
    const send = (accountId: string) =>
      api.call('POST', '/v1/messages', {
        headers: { 'x-service-key': a.serviceKeys.live },
        body: { channel: 'sms', to: '+15550000001', body: 'Hello', providerId: accountId },
      });
    const [theirs, nobodys] = [await send(b.names.accountId), await send(randomUUID())];
    expect([theirs.status, leaksOf(theirs)]).toEqual([400, []]);
    expect(seenOf(theirs)).toEqual(seenOf(nobodys));
  });

  test('a taken slug gets slug_taken and no data of B', async () => {
    const reply = await api.call('POST', '/v1/admin/tenants', {
      as: a.members.owner,
      body: { name: 'Mine', slug: b.slug },
    });
    expect([reply.status, reply.body.code, leaksOf(reply)]).toEqual([409, 'slug_taken', []]);
  });
});

test('no log line contains a secret', () => {
  expect(api.logLines.length).toBeGreaterThan(0);
  const log = api.logLines.join('\n');
  for (const secret of [a.secret, b.secret, ...Object.values(b.serviceKeys), b.members.owner.token]) {
    expect(log).not.toContain(secret);
  }
});
