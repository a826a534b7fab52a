import { afterAll, beforeAll, expect, test } from 'vitest';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';

let api: AdminApi;
let tenants: readonly TestTenant[];
beforeAll(async () => {
  api = await startAdminApi();
  tenants = [await api.tenant(), await api.tenant()].toSorted((a, b) => (a.slug < b.slug ? -1 : 1));
  for (const [i, { id }] of tenants.entries()) {
    await api.admin`insert into usage_counts values
      (${id}, 'day', '2026-01-05Z', 'sms', '', 'delivered', ${10 * (i + 1)}, 12),
      (${id}, 'day', '2026-01-05Z', 'sms', 'x', 'undelivered', 5, 5),
      (${id}, 'day', '2026-01-06Z', 'email', '', 'failed', 1, 0),
      (${id}, 'hour', '2026-01-05Z', 'sms', '', 'delivered', 1000, 1000),
      (${id}, 'day', '2026-01-07Z', 'sms', '', 'delivered', 1000, 1000)`;
    await api.admin`insert into usage_times values (${id}, 'day', '2026-01-05Z', 'sms', '', 'provider', ${[i, 3]})`;
  }
});
afterAll(() => api[Symbol.asyncDispose]());

const ask = (query: string) =>
  api.call('GET', `/v1/admin/platform/usage?since=2026-01-05T00:00:00Z&until=2026-01-07T00:00:00Z&${query}`, {
    as: api.platformAdmin,
  });

test('platform usage is summed over all tenants or grouped by tenant', async () => {
  const all = await ask('');
  expect(all.status).toBe(200);
  expect(all.body.items).toMatchObject([
    {
      messages: 42,
      segments: 34,
      deliveryRate: 0.75,
      statuses: { delivered: 30, undelivered: 10, failed: 2 },
    },
  ]);
  expect(all.body.items[0].timeToProvider).toEqual({ p50: 1, p95: 1 });
  const [first, second] = tenants;
  expect((await ask('groupBy=tenant')).body.items).toMatchObject([
    { tenantId: first?.id, tenantSlug: first?.slug, messages: 16, timeToProvider: { p50: 1 } },
    { tenantId: second?.id, tenantSlug: second?.slug, messages: 26 },
  ]);
  expect((await ask('groupBy=day,channel,status')).body.items).toEqual([
    { day: '2026-01-05', channel: 'sms', status: 'delivered', messages: 30, segments: 24 },
    { day: '2026-01-05', channel: 'sms', status: 'undelivered', messages: 10, segments: 10 },
    { day: '2026-01-06', channel: 'email', status: 'failed', messages: 2, segments: 0 },
  ]);
});

test('platform usage can be asked for one tenant', async () => {
  const [first] = tenants;
  const { body } = await ask(`tenant=${first?.slug}&groupBy=channel`);
  expect(body.items).toMatchObject([
    { channel: 'email', messages: 1 },
    { channel: 'sms', messages: 15 },
  ]);
  expect(body.nextCursor).toBeNull();
  expect((await ask('tenant=nobody')).body.items).toEqual([]);
});

test('platform usage by tenant can be read in pages, also of more tenants than an answer has items', async () => {
  await api.admin`
    with t as (
      insert into tenants (id, slug, name) select gen_random_uuid(), 'many-' || lpad(n::text, 5, '0'), 'x'
      from generate_series(1, 10_001) n returning id)
    insert into usage_counts select id, 'day', '2026-01-05Z', 'sms', '', 'delivered', 1, 1 from t`;
  expect((await ask('groupBy=tenant')).body).toMatchObject({ code: 'validation_failed' });
  const seen: string[] = [];
  let cursor: string | null = null;
  do {
    const { body } = await ask(`groupBy=tenant&limit=1000${cursor === null ? '' : `&cursor=${cursor}`}`);
    seen.push(...(body.items as { tenantSlug: string }[]).map(({ tenantSlug }) => tenantSlug));
    cursor = body.nextCursor;
  } while (cursor !== null);
  expect(seen).toHaveLength(10_001 + tenants.length);
  expect(new Set(seen).size).toBe(seen.length);
  for (const { slug } of tenants) expect(seen).toContain(slug);
  await api.admin`delete from usage_counts where tenant_id in (select id from tenants where slug like 'many-%')`;
  await api.admin`delete from tenants where slug like 'many-%'`;
});

test('a page of platform usage ends with its last tenant, and has no times by status', async () => {
  const [first, second] = tenants;
  const page = await ask('groupBy=tenant,day&limit=1');
  expect(page.body.items).toMatchObject([
    { tenantId: first?.id, day: '2026-01-05' },
    { tenantId: first?.id, day: '2026-01-06' },
  ]);
  const rest = await ask(`groupBy=tenant,day&limit=1&cursor=${page.body.nextCursor}`);
  expect(rest.body.items.map(({ tenantId }: { tenantId: string }) => tenantId)).toEqual([
    second?.id,
    second?.id,
  ]);
  expect(rest.body.nextCursor).toBeNull();
  const [byStatus] = (await ask('groupBy=tenant,status&limit=1')).body.items;
  expect(byStatus).not.toHaveProperty('timeToProvider');
  for (const query of [
    'limit=5',
    'groupBy=tenant&cursor=x',
    `groupBy=tenant&limit=1&cursor=${page.body.nextCursor}`,
  ])
    expect((await ask(query)).status).toBe(400);
});

test('platform usage as CSV leads from page to page', async () => {
  const headers = { authorization: `Bearer ${api.platformAdmin.token}`, accept: 'text/csv' };
  const path = '/v1/admin/platform/usage';
  const get = (query: string) => api.app.inject({ method: 'GET', url: `${path}${query}`, headers });
  const first = await get('?since=2026-01-06T00:00:00Z&until=2026-01-07T00:00:00Z&groupBy=tenant&limit=1');
  const [, next = ''] = /^<(\?[^>]+)>; rel="next"$/.exec(String(first.headers['link'])) ?? [];
  const second = await get(next);
  expect(second.headers['link']).toBeUndefined();
  const [one, other] = [first, second].map(({ body }) => body.split('\r\n'));
  expect(other?.[0]).toBe(one?.[0]);
  expect([one?.[1], other?.[1]].map((line) => line?.split(',')[0])).toEqual(
    tenants.slice(0, 2).map(({ id }) => id),
  );
});

test('platform usage is available as CSV', async () => {
  const headers = { authorization: `Bearer ${api.platformAdmin.token}` };
  const url =
    '/v1/admin/platform/usage?since=2026-01-06T00:00:00Z&until=2026-01-07T00:00:00Z&groupBy=tenant,status&format=csv';
  const reply = await api.app.inject({ method: 'GET', url, headers });
  expect(reply.body.split('\r\n')).toEqual([
    'tenantId,tenantSlug,status,messages,segments',
    ...tenants.map(({ id, slug }) => `${id},${slug},failed,1,0`),
    '',
  ]);
});

test('platform usage is for platform admins only', async () => {
  const as = tenants[0]?.members.owner;
  const { status, body } = await api.call('GET', '/v1/admin/platform/usage', { as });
  expect([status, body.code]).toEqual([403, 'insufficient_role']);
});

test.each(['groupBy=hour', 'groupBy=provider', 'groupBy=tenant,tag', 'since=2020-01-05T00:00:00Z'])(
  'platform usage with %s is refused',
  async (query) => {
    const reply = await api.call('GET', `/v1/admin/platform/usage?${query}`, { as: api.platformAdmin });
    expect(reply.status).toBe(400);
  },
);
