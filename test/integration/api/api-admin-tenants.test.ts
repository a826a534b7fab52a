import { randomUUID } from 'node:crypto';
import { access, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import { startAdminApi, type AdminApi, type Person } from '#test/support/admin-api.ts';
import type { Reply } from '#test/support/api.ts';
import { lockWaits } from '#test/support/lock-waits.ts';
import { acceptBatch, acceptRow } from '#test/support/seed.ts';

const PATH = '/v1/admin/tenants';

let api: AdminApi;
let closed: AdminApi;

beforeAll(async () => {
  api = await startAdminApi();
  closed = await startAdminApi({ selfServeTenants: false });
});
afterAll(() => Promise.all([api[Symbol.asyncDispose](), closed[Symbol.asyncDispose]()]));

const slugOf = (): string => `s-${randomUUID()}`;
const create = (as: Person, body: object = {}, key?: string): Promise<Reply> =>
  api.call('POST', PATH, {
    as,
    body: { name: 'Acme', slug: slugOf(), ...body },
    headers: key === undefined ? {} : { 'idempotency-key': key },
  });
const auditOf = async (target: string): Promise<{ action: string; actor: string; tenant_id: string }[]> => [
  ...(await api.admin<{ action: string; actor: string; tenant_id: string }[]>`
    select action, actor, tenant_id from audit_log where target = ${target} order by seq`),
];

describe('creating a tenant', () => {
  test('answers 201 with the tenant, and makes the caller its owner', async () => {
    const founder = await api.person();
    const slug = slugOf();
    const { status, body } = await create(founder, { name: 'Acme 😀', slug });
    expect(status).toBe(201);
    expect(body).toMatchObject({
      name: 'Acme 😀',
      slug,
      status: 'active',
      plan: 'free',
      suspension: null,
      managedBy: null,
    });
    const me = await api.call('GET', '/v1/admin/me', { as: founder });
    expect(me.body).toEqual({
      userId: founder.userId,
      subject: founder.subject,
      email: founder.email,
      name: 'Someone',
      tenants: [{ id: body.id, slug, name: 'Acme 😀', role: 'owner', status: 'active' }],
    });
    expect(await auditOf(body.id)).toEqual([
      { action: 'tenant.created', actor: founder.userId, tenant_id: body.id },
    ]);
    expect((await api.call('GET', '/v1/admin/providers', { as: founder, slug })).status).toBe(200);
  });

  test('the new tenant can store a secret immediately', async () => {
    const founder = await api.person();
    const { body } = await create(founder);
    const provider = { provider: 'simulator-sms', label: 'First', secretConfig: {} };
    const stored = await api.call('POST', '/v1/admin/providers', {
      as: founder,
      slug: body.slug,
      body: provider,
    });
    expect(stored.status).toBe(201);
    await expect(access(join(api.keyringDir, `${body.id}.key`))).resolves.toBeUndefined();
  });

  test('creates no encryption key for a tenant without secrets or for a refused request', async () => {
    const keys = () => readdir(api.keyringDir);
    const before = await keys();
    const slug = slugOf();
    const people = await Promise.all(Array.from({ length: 5 }, () => api.person()));
    const replies = await Promise.all(people.map((person) => create(person, { slug })));
    expect(replies.filter(({ status }) => status === 201)).toHaveLength(1);
    expect(await keys()).toEqual(before);
  });

  test('a user creates at most tenantsPerUserMax tenants under concurrency; platform admins are exempt', async () => {
    await using small = await startAdminApi({ tenantsPerUserMax: 3 });
    const founder = await small.person();
    const found = (as: Person, key?: string): Promise<Reply> =>
      small.call('POST', '/v1/admin/tenants', {
        as,
        body: { name: 'Another', slug: slugOf() },
        headers: key === undefined ? {} : { 'idempotency-key': key },
      });
    const replies = await Promise.all(Array.from({ length: 8 }, () => found(founder)));
    expect(replies.filter(({ status }) => status === 201)).toHaveLength(3);
    const refused = replies.filter(({ status }) => status !== 201);
    expect(new Set(refused.map(({ status, body }) => `${status} ${body.code}`))).toEqual(
      new Set(['403 plan_limit_reached']),
    );
    expect((await found(await small.person())).status).toBe(201);
    // A tenant that was handed to somebody else still counts for its creator.
    const [created] = replies.filter(({ status }) => status === 201);
    const other = await small.person();
    const member = { as: founder, slug: created?.body.slug };
    await small.call('PUT', '/v1/admin/members', {
      ...member,
      body: { subject: other.subject, role: 'owner' },
    });
    const left = await small.call('DELETE', `/v1/admin/members/${founder.userId}`, member);
    expect([left.status, (await found(founder)).status]).toEqual([204, 403]);
    for (let n = 0; n < 4; n += 1) expect((await found(small.platformAdmin)).status).toBe(201);
  });

  test('tenants that others made a user the owner of do not count: nobody can use up the tenants of somebody else', async () => {
    await using small = await startAdminApi({ tenantsPerUserMax: 1 });
    const found = (as: Person): Promise<Reply> =>
      small.call('POST', '/v1/admin/tenants', { as, body: { name: 'Another', slug: slugOf() } });
    const [giver, other] = [await small.person(), await small.person()];
    const given = { as: giver, slug: (await found(giver)).body.slug };
    const body = { subject: other.subject, role: 'owner' };
    await small.call('PUT', '/v1/admin/members', { ...given, body });
    const left = await small.call('DELETE', `/v1/admin/members/${giver.userId}`, given);
    // The last owner of this tenant cannot leave it.
    const refused = await small.call('DELETE', `/v1/admin/members/${other.userId}`, { ...given, as: other });
    expect([left.status, refused.body.code]).toEqual([204, 'last_owner']);
    const replies = [await found(other), await found(other)];
    expect(replies.map(({ status }) => status)).toEqual([201, 403]);
  });

  test.each([
    [{ name: 'x' }, 'name'],
    [{ name: 'x'.repeat(81) }, 'name'],
    [{ slug: 'Upper' }, 'slug'],
    [{ slug: '-a' }, 'slug'],
    [{ slug: 'a-' }, 'slug'],
    [{ slug: 'a'.repeat(64) }, 'slug'],
    [{ slug: '' }, 'slug'],
    [{ plan: 'gold' }, 'plan'],
  ])('refuses %j with 400', async (change, field) => {
    const { status, body } = await create(await api.person(), change);
    expect([status, body.details[0].field]).toEqual([400, field]);
  });

  test('accepts slugs of 1 and of 63 characters', async () => {
    const founder = await api.person();
    const long = `a${randomUUID()}`.padEnd(63, '0');
    expect((await create(founder, { slug: long })).status).toBe(201);
    expect((await create(founder, { slug: 'z' })).status).toBe(201);
  });

  test('refuses a slug that is taken, also under concurrency', async () => {
    const slug = slugOf();
    const people = await Promise.all(Array.from({ length: 5 }, () => api.person()));
    const replies = await Promise.all(people.map((person) => create(person, { slug })));
    expect(replies.map(({ status }) => status).toSorted((x, y) => x - y)).toEqual([201, 409, 409, 409, 409]);
    expect(replies.find(({ status }) => status === 409)?.body.code).toBe('slug_taken');
  });

  test('creates once per idempotency key and user', async () => {
    const [founder, other] = [await api.person(), await api.person()];
    const body = { slug: slugOf() };
    const first = await create(founder, body, 'tenants-once');
    const again = await create(founder, body, 'tenants-once');
    expect([again.status, again.headers['idempotent-replayed'], again.body]).toEqual([
      201,
      'true',
      first.body,
    ]);
    expect((await create(founder, { slug: slugOf() }, 'tenants-once')).body.code).toBe(
      'idempotency_mismatch',
    );
    expect((await create(other, body, 'tenants-once')).body.code).toBe('slug_taken');
  });

  test('concurrent requests with one idempotency key create and return one tenant', async () => {
    const founder = await api.person();
    const body = { slug: slugOf() };
    const replies = await Promise.all(Array.from({ length: 5 }, () => create(founder, body, 'tenants-race')));
    expect(replies.map(({ status }) => status)).toEqual([201, 201, 201, 201, 201]);
    expect(new Set(replies.map((reply) => reply.body.id)).size).toBe(1);
  });

  test('only platform admins may choose a plan', async () => {
    const refused = await create(await api.person(), { plan: 'growth' });
    expect([refused.status, refused.body.code]).toEqual([403, 'insufficient_role']);
    const { status, body } = await create(api.platformAdmin, { plan: 'growth' });
    expect([status, body.plan]).toEqual([201, 'growth']);
    const [row] = await api.admin<
      { limits: unknown }[]
    >`select limits from tenant_limits where tenant_id = ${body.id}`;
    expect(row?.limits).toEqual(BUILT_IN_PLANS.growth);
  });

  test('without self-service only platform admins create tenants', async () => {
    const body = { name: 'Acme', slug: slugOf() };
    const refused = await closed.call('POST', PATH, { as: await closed.person(), body });
    expect([refused.status, refused.body.code]).toEqual([403, 'insufficient_role']);
    expect((await closed.call('POST', PATH, { as: closed.platformAdmin, body })).status).toBe(201);
  });
});

describe('reading tenants', () => {
  test('a user sees their own tenants, newest first, and a platform admin sees all', async () => {
    const [founder, other] = [await api.person(), await api.person()];
    const ids: string[] = [];
    for (let i = 0; i < 3; i += 1) ids.unshift((await create(founder)).body.id);
    const foreign = (await create(other)).body.id;
    const first = await api.call('GET', `${PATH}?limit=2`, { as: founder });
    const second = await api.call('GET', `${PATH}?limit=2&cursor=${first.body.nextCursor}`, { as: founder });
    expect([...first.body.items, ...second.body.items].map(({ id }: { id: string }) => id)).toEqual(ids);
    expect(second.body.nextCursor).toBeNull();
    const all = await api.call('GET', `${PATH}?limit=200`, { as: api.platformAdmin });
    expect(all.body.items.map(({ id }: { id: string }) => id)).toEqual(
      expect.arrayContaining([foreign, ...ids]),
    );
    const stolen = await api.call('GET', `${PATH}?cursor=${first.body.nextCursor}`, { as: other });
    expect([stolen.status, stolen.body.code]).toEqual([400, 'invalid_cursor']);
    const statuses = await Promise.all(
      [founder, other, api.platformAdmin].map(
        async (as) => (await api.call('GET', `${PATH}/${ids[0]}`, { as })).status,
      ),
    );
    expect(statuses).toEqual([200, 404, 200]);
  });
});

describe('changing a tenant', () => {
  test('owners, admins and platform admins may rename it; others may not', async () => {
    const tenant = await api.tenant();
    const rename = (as: Person, name: string) =>
      api.call('PATCH', `${PATH}/${tenant.id}`, { as, body: { name } });
    const statuses = [];
    for (const as of [...Object.values(tenant.members), await api.person(), api.platformAdmin]) {
      statuses.push((await rename(as, 'Renamed')).status);
    }
    expect(statuses).toEqual([200, 200, 403, 403, 404, 200]);
    expect((await rename(tenant.members.owner, 'x')).status).toBe(400);
    const read = await api.call('GET', `${PATH}/${tenant.id}`, { as: tenant.members.viewer });
    expect(read.body.name).toBe('Renamed');
    expect((await auditOf(tenant.id)).map(({ action }) => action)).toEqual(Array(3).fill('tenant.updated'));
  });

  test('only platform admins may change the plan, and limit overrides are kept', async () => {
    const tenant = await api.tenant();
    await api.admin`update tenant_limits set overrides = '{"messagesPerDay": 7}' where tenant_id = ${tenant.id}`;
    const move = (as: Person) => api.call('PATCH', `${PATH}/${tenant.id}`, { as, body: { plan: 'starter' } });
    const refused = await move(tenant.members.owner);
    expect([refused.status, refused.body.code]).toEqual([403, 'insufficient_role']);
    const moved = await move(api.platformAdmin);
    expect([moved.status, moved.body.plan]).toEqual([200, 'starter']);
    const [row] = await api.admin<{ plan: string; limits: unknown; generation: number }[]>`
      select plan, limits, generation::integer from tenant_limits where tenant_id = ${tenant.id}`;
    expect(row).toEqual({
      plan: 'starter',
      limits: { ...BUILT_IN_PLANS.starter, messagesPerDay: 7 },
      generation: 2,
    });
    expect(api.notices).toContainEqual({ kind: 'tenant', notice: { tenantId: tenant.id } });
  });

  test('with an empty body answers 200 and writes no audit entry', async () => {
    const tenant = await api.tenant();
    expect(
      (await api.call('PATCH', `${PATH}/${tenant.id}`, { as: tenant.members.owner, body: {} })).status,
    ).toBe(200);
    expect(await auditOf(tenant.id)).toEqual([]);
  });

  test('plan and suspension of a cluster-managed tenant are 409; its name can be changed', async () => {
    const tenant = await api.tenant();
    await api.admin`update tenants set owner_ref = 'team/acme', owner_uid = 'uid' where id = ${tenant.id}`;
    const as = api.platformAdmin;
    const replies = [
      await api.call('PATCH', `${PATH}/${tenant.id}`, { as, body: { plan: 'starter' } }),
      await api.call('POST', `${PATH}/${tenant.id}/suspend`, { as }),
      await api.call('POST', `${PATH}/${tenant.id}/resume`, { as }),
    ];
    expect(replies.map(({ status, body }) => [status, body.code])).toEqual(
      Array.from({ length: 3 }, () => [409, 'managed_by_cluster']),
    );
    const renamed = await api.call('PATCH', `${PATH}/${tenant.id}`, { as, body: { name: 'Still ours' } });
    expect([renamed.status, renamed.body.managedBy]).toEqual([200, 'team/acme']);
  });
});

describe('lifting a brake', () => {
  const brake = async (tenantId: string, channel: string, level: string) =>
    api.admin`insert into brakes (tenant_id, channel, level, reason, rate, bound, applied_at, gap_ms, next_at)
      values (${tenantId}, ${channel}, ${level}, 'hard_bounce_rate', 0.2, 0.1, now(), 1000, now())`;
  const shown = (body: unknown) => (body as { brake: { channel: string }[] }).brake.map((one) => one.channel);

  test('is for platform admins only: members get 403 and see the active brakes, others get 404', async () => {
    const tenant = await api.tenant();
    await brake(tenant.id, 'sms', 'slowed');
    const people = [...Object.values(tenant.members), await api.person()];
    const statuses = await Promise.all(
      people.map(async (as) => (await api.call('POST', `${PATH}/${tenant.id}/lift-brake`, { as })).status),
    );
    expect(statuses).toEqual([403, 403, 403, 403, 404]);
    const { body } = await api.call('GET', `${PATH}/${tenant.id}`, { as: tenant.members.viewer });
    expect(body.brake).toEqual([
      {
        channel: 'sms',
        level: 'slowed',
        reason: 'hard_bounce_rate',
        rate: 0.2,
        bound: 0.1,
        at: expect.any(String) as string,
      },
    ]);
    expect((await api.callAs('viewer', tenant, 'GET', '/v1/admin/limits')).body.brake).toEqual(body.brake);
  });

  test('lifts the brake of one channel or of all, emits one event for each, and is idempotent', async () => {
    const tenant = await api.tenant();
    for (const [channel, level] of [
      ['sms', 'held'],
      ['email', 'slowed'],
      ['push', 'held'],
    ] as const)
      await brake(tenant.id, channel, level);
    const lift = async (body?: object) => {
      const reply = await api.call('POST', `${PATH}/${tenant.id}/lift-brake`, {
        as: api.platformAdmin,
        body,
      });
      return [reply.status, shown(reply.body)];
    };
    expect(await lift({ channel: 'sms' })).toEqual([200, ['email', 'push']]);
    expect(await lift({ channel: 'sms' })).toEqual([200, ['email', 'push']]);
    expect(await lift()).toEqual([200, []]);
    expect(await lift({})).toEqual([200, []]);
    expect((await auditOf(tenant.id)).map(({ action, tenant_id }) => [action, tenant_id])).toEqual([
      ['tenant.brake_lifted', tenant.id],
      ['tenant.brake_lifted', tenant.id],
    ]);
    const events = await api.admin`
      select details ->> 'channel' as channel from tenant_events where tenant_id = ${tenant.id} and type = 'tenant.brake_lifted'
      order by event_seq`;
    expect(events.map(({ channel }) => channel as string)).toEqual(['sms', 'email', 'push']);
    const wrong = await api.call('POST', `${PATH}/${tenant.id}/lift-brake`, {
      as: api.platformAdmin,
      body: { channel: 'fax' },
    });
    expect(wrong.status).toBe(400);
  });

  test('is allowed for a cluster-managed tenant', async () => {
    const tenant = await api.tenant();
    await api.admin`update tenants set owner_ref = 'team/acme', owner_uid = 'uid' where id = ${tenant.id}`;
    await brake(tenant.id, 'sms', 'held');
    const reply = await api.call('POST', `${PATH}/${tenant.id}/lift-brake`, { as: api.platformAdmin });
    expect([reply.status, shown(reply.body)]).toEqual([200, []]);
  });
});

describe('suspending a tenant', () => {
  test('is for platform admins only: members get 403, others get 404', async () => {
    const tenant = await api.tenant();
    const people = [...Object.values(tenant.members), await api.person()];
    for (const step of ['suspend', 'resume']) {
      const statuses = await Promise.all(
        people.map(async (as) => (await api.call('POST', `${PATH}/${tenant.id}/${step}`, { as })).status),
      );
      expect(statuses).toEqual([403, 403, 403, 403, 404]);
    }
  });

  test('refuses writes of members immediately and allows their reads', async () => {
    const tenant = await api.tenant();
    const as = api.platformAdmin;
    const { status, body } = await api.call('POST', `${PATH}/${tenant.id}/suspend`, {
      as,
      body: { reason: 'billing' },
    });
    expect([status, body.status]).toEqual([200, 'suspended']);
    expect(body.suspension).toMatchObject({ reason: 'billing', by: as.userId });
    const refused = [
      await api.callAs('owner', tenant, 'POST', '/v1/admin/api-keys', { name: 'Key' }),
      await api.call('PATCH', `${PATH}/${tenant.id}`, {
        as: tenant.members.owner,
        body: { name: 'Renamed' },
      }),
    ];
    expect(refused.map((reply) => [reply.status, reply.body.code])).toEqual(
      Array.from({ length: 2 }, () => [403, 'tenant_suspended']),
    );
    expect((await api.callAs('viewer', tenant, 'GET', '/v1/admin/providers')).status).toBe(200);
    const resumed = await api.call('POST', `${PATH}/${tenant.id}/resume`, { as });
    expect([resumed.status, resumed.body.status, resumed.body.suspension]).toEqual([200, 'active', null]);
    expect((await api.callAs('owner', tenant, 'POST', '/v1/admin/api-keys', { name: 'Key' })).status).toBe(
      201,
    );
    expect((await auditOf(tenant.id)).map(({ action, tenant_id }) => [action, tenant_id])).toEqual([
      ['tenant.suspended', tenant.id],
      ['tenant.resumed', tenant.id],
    ]);
  });

  test('is idempotent and audits only actual changes', async () => {
    const tenant = await api.tenant();
    const as = api.platformAdmin;
    const step = async (name: string, body?: object): Promise<string> => {
      const reply = await api.call('POST', `${PATH}/${tenant.id}/${name}`, { as, body });
      return `${reply.status} ${reply.body.suspension?.reason ?? reply.body.status}`;
    };
    const seen = [
      await step('resume'),
      await step('suspend'),
      await step('suspend'),
      await step('suspend', { reason: 'abuse' }),
      await step('resume', {}),
      await step('resume'),
    ];
    expect(seen).toEqual(['200 active', '200 manual', '200 manual', '200 abuse', '200 active', '200 active']);
    expect((await auditOf(tenant.id)).map(({ action }) => action)).toEqual([
      'tenant.suspended',
      'tenant.suspended',
      'tenant.resumed',
    ]);
    const wrong = await api.call('POST', `${PATH}/${tenant.id}/suspend`, { as, body: { reason: 'mood' } });
    expect(wrong.status).toBe(400);
  });

  test('counts as the last one when two change the reason at once', async () => {
    const tenant = await api.tenant();
    const suspend = (reason: string): Promise<Reply> =>
      api.call('POST', `${PATH}/${tenant.id}/suspend`, { as: api.platformAdmin, body: { reason } });
    await suspend('billing');
    let second: Promise<Reply> | undefined;
    await api.admin.begin(async (tx) => {
      await tx`update tenants set suspension_reason = 'abuse' where id = ${tenant.id}`;
      second = suspend('billing');
      await expect.poll(() => lockWaits(api.admin, 'for no key update of t')).toHaveLength(1);
    });
    expect((await second)?.body.suspension).toMatchObject({ reason: 'billing' });
    const [audited] = await api.admin`
      select changes from audit_log where target = ${tenant.id} order by seq desc limit 1`;
    expect(audited?.['changes']).toEqual([{ field: 'suspension', from: 'abuse', to: 'billing' }]);
  });

  test('takes over the suspension that a deleted resource left behind, even for the same reason', async () => {
    const tenant = await api.tenant();
    const as = api.platformAdmin;
    await api.admin`
      update tenants set owner_ref = 'team/acme', owner_uid = null, owner_created_at = now(), status = 'suspended',
        suspension_reason = 'manual', suspended_at = now(), suspended_by = 'team/acme' where id = ${tenant.id}`;
    for (let call = 0; call < 2; call += 1) {
      const { status, body } = await api.call('POST', `${PATH}/${tenant.id}/suspend`, { as });
      expect([status, body.suspension]).toEqual([
        200,
        expect.objectContaining({ reason: 'manual', by: as.userId }),
      ]);
    }
    expect((await auditOf(tenant.id)).map(({ action }) => action)).toEqual(['tenant.suspended']);
  });

  test('is 409 for a tenant that is being deleted and 404 for an unknown one', async () => {
    const tenant = await api.tenant();
    await api.admin`update tenants set status = 'deleting' where id = ${tenant.id}`;
    const as = api.platformAdmin;
    const refused = await api.call('POST', `${PATH}/${tenant.id}/suspend`, { as });
    expect([refused.status, refused.body.code]).toEqual([409, 'invalid_state']);
    expect((await api.call('POST', `${PATH}/${randomUUID()}/suspend`, { as })).status).toBe(404);
  });
});

describe('deleting a tenant', () => {
  const remove = (as: Person, id: string): Promise<Reply> => api.call('DELETE', `${PATH}/${id}`, { as });
  const answer = ({ status, body }: Reply): string => `${status} ${body.code ?? body.status}`;

  test('is for platform admins only: members get 403, others get 404; an unknown tenant is 404', async () => {
    const tenant = await api.tenant();
    const people = [...Object.values(tenant.members), await api.person()];
    const answers = await Promise.all(people.map(async (as) => answer(await remove(as, tenant.id))));
    expect(answers).toEqual([...Array.from({ length: 4 }, () => '403 insufficient_role'), '404 not_found']);
    expect(answer(await remove(api.platformAdmin, randomUUID()))).toBe('404 not_found');
    const read = await api.call('GET', `${PATH}/${tenant.id}`, { as: tenant.members.viewer });
    expect(read.body.status).toBe('active');
    expect(await auditOf(tenant.id)).toEqual([]);
  });

  test.each(['active', 'suspended'])(
    'that is %s stops its writes and sends immediately, despite an outdated copy in an api process',
    async (status) => {
      const tenant = await api.tenant();
      const { id, slug } = tenant;
      const { body: made } = await api.callAs('owner', tenant, 'POST', '/v1/admin/api-keys', { name: 'Key' });
      if (status === 'suspended')
        await api.call('POST', `${PATH}/${id}/suspend`, { as: api.platformAdmin, body: { reason: 'abuse' } });
      const { status: code, body } = await remove(api.platformAdmin, id);
      expect([code, body]).toMatchObject([
        202,
        { id, slug, status: 'deleting', suspension: null, managedBy: null },
      ]);
      expect(api.notices).toContainEqual({ kind: 'tenant', notice: { tenantId: id } });

      const send = await api.call('POST', '/v1/messages', {
        headers: { 'x-service-key': made.key },
        body: { channel: 'sms', to: '+15550000001', body: 'Hello' },
      });
      const write = await api.callAs('owner', tenant, 'POST', '/v1/admin/api-keys', { name: 'Another' });
      const as = tenant.members.owner;
      const rename = await api.call('PATCH', `${PATH}/${id}`, { as, body: { name: 'Renamed' } });
      expect([send, write, rename].map(answer)).toEqual(
        Array.from({ length: 3 }, () => '403 tenant_suspended'),
      );
      expect([send, write, rename].map((reply) => reply.body.message)).toEqual(
        Array.from({ length: 3 }, () => 'Tenant is being deleted'),
      );
      // An api with an outdated copy of the tenant lets the request in; the acceptance in the database refuses it.
      const row = acceptRow({ tenantId: id, slug, apiKeyId: made.id });
      const sql = api.database.open('api');
      expect((await acceptBatch(sql, [row])).map(({ verdict }) => verdict)).toEqual(['suspended']);
    },
  );

  test('is idempotent, is audited once, and cannot be undone by suspend or resume', async () => {
    const tenant = await api.tenant();
    const as = api.platformAdmin;
    const answers = await Promise.all(
      Array.from({ length: 4 }, async () => answer(await remove(as, tenant.id))),
    );
    expect([...answers, answer(await remove(as, tenant.id))]).toEqual(Array(5).fill('202 deleting'));
    expect(await auditOf(tenant.id)).toEqual([
      { action: 'tenant.purge_begun', actor: as.userId, tenant_id: tenant.id },
    ]);
    for (const step of ['suspend', 'resume']) {
      const refused = await api.call('POST', `${PATH}/${tenant.id}/${step}`, { as });
      expect(answer(refused)).toBe('409 invalid_state');
      expect(refused.body.message).toBe('Tenant is being deleted, which cannot be undone');
    }
  });

  test('refuses later changes of name and plan with 409, so that they cannot delay the purge', async () => {
    const tenant = await api.tenant();
    expect(answer(await remove(api.platformAdmin, tenant.id))).toBe('202 deleting');
    const read = () => api.admin`select name, updated_at from tenants where id = ${tenant.id}`;
    const before = await read();
    for (const body of [{ name: 'Renamed' }, { plan: 'starter' }]) {
      const changed = await api.call('PATCH', `${PATH}/${tenant.id}`, { as: api.platformAdmin, body });
      expect(answer(changed)).toBe('409 invalid_state');
      expect(changed.body.message).toBe('Tenant is being deleted, which cannot be undone');
    }
    expect(await read()).toEqual(before);
  });

  test('shows the status deleting to members and keeps the slug taken', async () => {
    const tenant = await api.tenant();
    const as = tenant.members.owner;
    await remove(api.platformAdmin, tenant.id);
    const read = await api.call('GET', `${PATH}/${tenant.id}`, { as });
    const list = await api.call('GET', PATH, { as });
    const me = await api.call('GET', '/v1/admin/me', { as });
    expect([read.body, list.body.items[0], me.body.tenants[0]].map(({ status }) => status)).toEqual(
      Array(3).fill('deleting'),
    );
    expect(answer(await create(api.platformAdmin, { slug: tenant.slug }))).toBe('409 slug_taken');
  });

  test('is 409 managed_by_cluster if a cluster resource owns the tenant, also during its purge', async () => {
    const tenant = await api.tenant();
    for (const status of ['active', 'deleting']) {
      await api.admin`update tenants set owner_ref = 'team/acme', owner_uid = 'uid', status = ${status} where id = ${tenant.id}`;
      expect(answer(await remove(api.platformAdmin, tenant.id))).toBe('409 managed_by_cluster');
    }
    const [row] = await api.admin`select status, owner_uid from tenants where id = ${tenant.id}`;
    expect(row).toEqual({ status: 'deleting', owner_uid: 'uid' });
  });

  test('that a cluster resource has released makes the API its owner permanently', async () => {
    const tenant = await api.tenant();
    await api.admin`update tenants set owner_ref = 'team/acme', owner_created_at = now(), owner_uid = null where id = ${tenant.id}`;
    const { body } = await remove(api.platformAdmin, tenant.id);
    expect(body).toMatchObject({ status: 'deleting', managedBy: null });
    const [row] = await api.admin`select owner_uid, owner_ref from tenants where id = ${tenant.id}`;
    expect(row).toEqual({ owner_uid: `api:${tenant.id}`, owner_ref: null });
    expect(answer(await remove(api.platformAdmin, tenant.id))).toBe('202 deleting');
  });
});
