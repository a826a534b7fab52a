import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { FREE, LIMIT_NAMES } from '#core/domain/tenant/plan.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';

let api: AdminApi;
let tenant: TestTenant;

beforeAll(async () => {
  api = await startAdminApi();
  tenant = await api.tenant();
});
afterAll(() => api[Symbol.asyncDispose]());

describe('limits', () => {
  const limits = async (of: TestTenant) => (await api.callAs('viewer', of, 'GET', '/v1/admin/limits')).body;

  test('show every limit with its value and its source', async () => {
    await api.admin`update tenant_limits set overrides = '{"messagesPerDay": 5}', limits = limits || '{"messagesPerDay": 5}'
      where tenant_id = ${tenant.id}`;
    const { plan, limits: shown } = await limits(tenant);
    expect(plan).toBe('free');
    expect(Object.keys(shown)).toEqual(LIMIT_NAMES);
    expect(shown.messagesPerDay).toEqual({ value: 5, source: 'override' });
    expect(shown.apiKeysMax).toEqual({ value: 20, source: 'plan' });
  });

  test('of a tenant without stored limits default to the free plan', async () => {
    const own = await api.tenant();
    await api.admin`delete from tenant_limits where tenant_id = ${own.id}`;
    await api.admin`delete from rate_windows`;
    const { limits: shown } = await limits(own);
    for (const name of LIMIT_NAMES) expect(shown[name]).toEqual({ value: FREE[name], source: 'default' });
  });

  test("show today's usage and none of yesterday's", async () => {
    const own = await api.tenant();
    const today = new Date().toISOString().slice(0, 10);
    await api.admin`update tenant_usage set day = ${today}::date, used = 41 where tenant_id = ${own.id}`;
    const { usage } = await limits(own);
    expect(usage).toMatchObject({ day: today, messages: 41 });
    expect(Date.parse(usage.resetsAt)).toBe(Date.parse(today) + 86_400_000);
    await api.admin`update tenant_usage set day = ${today}::date - 1 where tenant_id = ${own.id}`;
    expect((await limits(own)).usage.messages).toBe(0);
  });
});

describe('the audit log', () => {
  const log = (query = '') => api.callAs('admin', tenant, 'GET', `/v1/admin/audit-log${query}`);

  test('records actor, action, target, time, IP address, request id and app name', async () => {
    const created = await api.call('POST', '/v1/admin/api-keys', {
      as: tenant.members.admin,
      slug: tenant.slug,
      body: { name: 'Audited' },
      headers: { 'x-app-name': 'console\u0000 1', 'x-request-id': 'req-1' },
    });
    const { body } = await log('?limit=1');
    expect(body.items).toEqual([
      {
        id: expect.any(String),
        actor: tenant.members.admin.userId,
        actorName: 'Someone',
        actorEmail: tenant.members.admin.email,
        action: 'api_key.created',
        target: created.body.id,
        targetName: 'Audited',
        changes: [],
        at: expect.stringMatching(/Z$/),
        ip: '127.0.0.1',
        requestId: 'req-1',
        appName: 'console 1',
      },
    ]);
  });

  test('has no entry for a refused change', async () => {
    const before = (await log('?limit=200')).body.items.length;
    await api.callAs('admin', tenant, 'POST', '/v1/admin/api-keys', { name: 'x' });
    await api.callAs('viewer', tenant, 'POST', '/v1/admin/api-keys', { name: 'Refused' });
    expect((await log('?limit=200')).body.items.length).toBe(before);
  });

  test('is filtered by actor, action and time, and paged', async () => {
    const own = await api.tenant();
    const get = async (query: string) =>
      (await api.callAs('admin', own, 'GET', `/v1/admin/audit-log?${query}`)).body;
    for (const role of ['admin', 'owner', 'admin'] as const) {
      await api.callAs(role, own, 'POST', '/v1/admin/api-keys', { name: 'Filtered' });
    }
    await api.callAs('owner', own, 'PUT', '/v1/admin/members', { subject: 'x', role: 'viewer' });
    const { owner, admin } = own.members;
    expect((await get(`actor=${owner.userId}`)).items).toHaveLength(2);
    expect((await get(`actor=${admin.userId}&action=api_key.created`)).items).toHaveLength(2);
    expect((await get('action=member.added')).items).toHaveLength(1);
    const all = (await get('')).items;
    const since = all[1].at;
    expect((await get(`since=${since}`)).items).toHaveLength(
      all.filter(({ at }: { at: string }) => at >= since).length,
    );
    expect((await get('since=2099-01-01T00:00:00Z')).items).toEqual([]);
    const first = await get('limit=3');
    const second = await get(`limit=3&cursor=${first.nextCursor}`);
    expect([...first.items, ...second.items]).toEqual(all);
    expect(second.nextCursor).toBeNull();
    expect((await get(`action=member.added&cursor=${first.nextCursor}`)).code).toBe('invalid_cursor');
    const unknown = { code: 'validation_failed', details: [{ field: 'action', rule: 'enum' }] };
    expect(await get('action=api_key.create')).toMatchObject(unknown);
    for (const since of ['yesterday', '0000-01-01T00:00:00Z', '9999-12-31T23:59:59-23:59']) {
      expect((await get(`since=${since}`)).code).toBe('validation_failed');
    }
    expect((await get('since=0001-01-01T00:00:00Z')).items).toEqual(all);
  });
});
