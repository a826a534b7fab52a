import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';
import { PEPPER } from '#test/support/api.ts';
import { lockWaits } from '#test/support/lock-waits.ts';
import { plantResult } from '#test/support/planted-messages.ts';
import { seedAccount } from '#test/support/seed.ts';
import { serviceKeyMaker } from '#test/support/service-keys.ts';

let api: AdminApi;
let port: number;

beforeAll(async () => {
  api = await startAdminApi();
  port = Number(new URL(await api.app.listen({ host: '127.0.0.1', port: 0 })).port);
});
afterAll(() => api[Symbol.asyncDispose]());

/** Announces a change as a process of the api does after its commit. */
const tell = (kind: string, tenantId: string, id?: string): void =>
  api.notice(kind, id === undefined ? { tenantId } : { tenantId, id });

/** Sends the start of a body, makes the change, and sends the rest after the time in which a body is not slow. */
async function during(
  change: () => Promise<unknown>,
  { path, headers, body }: { path: string; headers: Record<string, string>; body: unknown },
): Promise<{ status: number | undefined; code: string | undefined }> {
  const bytes = JSON.stringify(body);
  const call = request({
    port,
    path,
    method: path.includes('members') ? 'PUT' : 'POST',
    headers: { 'content-type': 'application/json', 'content-length': bytes.length, ...headers },
  });
  const answered = new Promise<{ status: number | undefined; code: string | undefined }>(
    (resolve, reject) => {
      call.on('error', reject).on('response', (response) => {
        text(response).then((answer) => {
          const { code } = JSON.parse(answer) as { code?: string };
          resolve({ status: response.statusCode, code });
        }, reject);
      });
    },
  );
  call.write(bytes.slice(0, 5));
  await sleep(300);
  await change();
  await sleep(400);
  call.end(bytes.slice(5));
  return answered;
}

describe('a request with a slow body', () => {
  const message = { channel: 'sms', to: '+15550000001', body: 'Hello' };
  const makeKey = () => serviceKeyMaker(api.admin, PEPPER);

  async function tenantWithKey() {
    const tenant = await api.tenant();
    await seedAccount(api.admin, tenant.id, { channel: 'sms' });
    const key = await makeKey()(tenant.id);
    return { tenant, key, headers: { 'x-service-key': key.text } };
  }

  test('is accepted with a key that is still valid', async () => {
    const { headers } = await tenantWithKey();
    const answer = await during(() => Promise.resolve(), { path: '/v1/messages', headers, body: message });
    expect(answer).toEqual({ status: 202, code: undefined });
  });

  test('is refused and stores nothing if its key is revoked before the body ends', async () => {
    const { tenant, key, headers } = await tenantWithKey();
    const revoke = async () => {
      await api.admin`update despatch.api_keys set revoked_at = now() where id = ${key.id}`;
      tell('key', tenant.id, key.id);
    };
    const answer = await during(revoke, { path: '/v1/messages', headers, body: message });
    expect(answer).toEqual({ status: 401, code: 'api_key_revoked' });
    expect(await api.admin`select from despatch.messages where tenant_id = ${tenant.id}`).toHaveLength(0);
  });

  test('is refused if its tenant is suspended before the body ends', async () => {
    const { tenant, headers } = await tenantWithKey();
    const suspend = async () => {
      await api.admin`update despatch.tenants set status = 'suspended', suspension_reason = 'manual' where id = ${tenant.id}`;
      tell('tenant', tenant.id);
    };
    const answer = await during(suspend, { path: '/v1/messages', headers, body: message });
    expect(answer).toEqual({ status: 403, code: 'tenant_suspended' });
  });

  test('is refused if its admin is removed before the body ends', async () => {
    const tenant = await api.tenant();
    const { token, userId } = tenant.members.admin;
    const headers = { authorization: `Bearer ${token}`, 'x-tenant-slug': tenant.slug };
    const remove = async () => {
      await api.admin`delete from despatch.members where tenant_id = ${tenant.id} and user_id = ${userId}`;
      tell('tenant', tenant.id);
    };
    const body = { email: 'ann@example.org', role: 'viewer' };
    const answer = await during(remove, { path: '/v1/admin/members', headers, body });
    expect(answer).toEqual({ status: 404, code: 'not_found' });
  });
});

/** Begins the call while another change holds the tenant, makes the change in the database alone, and returns the call's answer. */
async function behind(
  { id }: TestTenant,
  change: () => Promise<unknown>,
  call: () => Promise<{ status: number; body: { code?: string } }>,
): Promise<{ status: number; code: string | undefined }> {
  const watcher = api.database.open('admin', 2);
  try {
    const called = await watcher.begin(async (tx) => {
      await tx`select from despatch.tenants where id = ${id} for no key update`;
      const begun = call();
      await expect.poll(() => lockWaits(api.admin, 'for no key update of t')).toHaveLength(1);
      await change();
      return { begun };
    });
    const { status, body } = await called.begun;
    return { status, code: body?.code };
  } finally {
    await watcher.end();
  }
}

const roleOf = ({ id }: TestTenant, userId: string, role: string) =>
  api.admin`update despatch.members set role = ${role} where tenant_id = ${id} and user_id = ${userId}`;
const without = ({ id }: TestTenant, userId: string) =>
  api.admin`delete from despatch.members where tenant_id = ${id} and user_id = ${userId}`;

describe("a change that waits for the tenant's lock", () => {
  const invitation = { email: 'ann@example.org', role: 'viewer' };

  test('is 404 for a member who is removed during the wait', async () => {
    const tenant = await api.tenant();
    const answer = await behind(
      tenant,
      () => without(tenant, tenant.members.admin.userId),
      () => api.callAs('admin', tenant, 'PUT', '/v1/admin/members', invitation),
    );
    expect(answer).toEqual({ status: 404, code: 'not_found' });
    expect((await api.callAs('owner', tenant, 'GET', '/v1/admin/members')).text).not.toContain('ann@');
  });

  test('is 403 for a member whose role is lowered during the wait', async () => {
    const tenant = await api.tenant();
    const answer = await behind(
      tenant,
      () => roleOf(tenant, tenant.members.admin.userId, 'viewer'),
      () => api.callAs('admin', tenant, 'PUT', '/v1/admin/members', invitation),
    );
    expect(answer).toEqual({ status: 403, code: 'insufficient_role' });
  });

  test('to the owner role is 403 for an owner who is demoted to admin during the wait', async () => {
    const tenant = await api.tenant();
    const { owner, viewer } = tenant.members;
    const answer = await behind(
      tenant,
      () => roleOf(tenant, owner.userId, 'admin'),
      () => api.callAs('owner', tenant, 'PUT', `/v1/admin/members/${viewer.userId}`, { role: 'owner' }),
    );
    expect(answer).toEqual({ status: 403, code: 'insufficient_role' });
  });

  test("of the tenant's name is 404 for an admin who is removed during the wait", async () => {
    const tenant = await api.tenant();
    const answer = await behind(
      tenant,
      () => without(tenant, tenant.members.admin.userId),
      () =>
        api.call('PATCH', `/v1/admin/tenants/${tenant.id}`, {
          as: tenant.members.admin,
          body: { name: 'Other' },
        }),
    );
    expect(answer).toEqual({ status: 404, code: 'not_found' });
  });

  test('is made for a member whose lowered role still suffices', async () => {
    const tenant = await api.tenant();
    const answer = await behind(
      tenant,
      () => roleOf(tenant, tenant.members.owner.userId, 'admin'),
      () => api.callAs('owner', tenant, 'PUT', '/v1/admin/members', invitation),
    );
    expect(answer).toEqual({ status: 200, code: undefined });
  });
});

describe('a change of messages', () => {
  const limits = { batchMessagesMax: 500, sendRequestsPerMinute: 1_000 };
  const message = { channel: 'sms', to: '+15550000001', body: 'Hello', tags: ['spring'] };
  const later = (hours: number) => new Date(Date.now() + hours * 3_600_000).toISOString();

  async function setup() {
    const tenant = await api.tenant(limits);
    await seedAccount(api.admin, tenant.id, { channel: 'sms' });
    const { text: key } = await serviceKeyMaker(api.admin, PEPPER)(tenant.id);
    const byKey = (method: string, url: string, body?: object) =>
      api.call(method, url, { headers: { 'x-service-key': key }, body });
    return { tenant, byKey };
  }

  async function sent(byKey: Awaited<ReturnType<typeof setup>>['byKey'], fields: object): Promise<string> {
    const { status, body } = await byKey('POST', '/v1/messages', { ...message, ...fields });
    expect(status).toBe(202);
    return body.id;
  }

  /** All that a change of the tenant's messages might change. */
  const rowsOf = ({ id }: TestTenant) => api.admin`
    select m.id, s.status, m.scheduled_at, m.content::text, (select count(*) from audit_log a where a.tenant_id = ${id}) as audited
    from messages m join message_states s using (seq, purge_on) where m.tenant_id = ${id}`;

  const changes = [
    { name: 'a cancel', method: 'POST', path: (id: string) => `/v1/messages/${id}/cancel` },
    {
      name: 'a cancel by filter',
      method: 'POST',
      path: () => '/v1/messages/cancel',
      body: { filter: { tag: 'spring' } },
    },
    {
      name: 'a move to another time',
      method: 'PATCH',
      path: (id: string) => `/v1/messages/${id}`,
      fields: { sendAt: later(1) },
      body: { sendAt: later(2) },
    },
    { name: 'a retry', method: 'POST', path: (id: string) => `/v1/admin/messages/${id}/retry`, ended: true },
    {
      name: 'an erasure',
      method: 'DELETE',
      path: (id: string) => `/v1/admin/messages/${id}/content`,
      ended: true,
    },
  ];

  test.each(
    changes.flatMap((change) => [
      { ...change, who: 'removed', status: 404, code: 'not_found' },
      { ...change, who: 'demoted', status: 403, code: 'insufficient_role' },
    ]),
  )('$name is $status for a member who was $who after being admitted', async (change) => {
    const { tenant, byKey } = await setup();
    const id = await sent(byKey, change.fields ?? {});
    if (change.ended) await plantResult(api.admin, id, { status: 'failed', final: true });
    const { userId } = tenant.members.admin;
    // From now on the api has a copy of the membership, and no notice says that it is outdated.
    expect((await api.callAs('admin', tenant, 'GET', `/v1/messages/${id}`)).status).toBe(200);
    await (change.who === 'removed' ? without(tenant, userId) : roleOf(tenant, userId, 'viewer'));
    const before = await rowsOf(tenant);
    const { status, body } = await api.callAs('admin', tenant, change.method, change.path(id), change.body);
    expect({ status, code: body?.code }).toEqual({ status: change.status, code: change.code });
    expect(await rowsOf(tenant)).toEqual(before);
  });

  test('a removal waits for the part of a cancel that is under way, and no later part is canceled', async () => {
    const { tenant, byKey } = await setup();
    const batch = { messages: Array.from({ length: 450 }, () => message) };
    expect((await byKey('POST', '/v1/messages/batch', batch)).status).toBe(202);
    const watcher = api.database.open('admin', 2);
    try {
      const { canceling, removing } = await watcher.begin(async (tx) => {
        // One of the second part.
        await tx`select from live_messages where seq =
          (select seq from live_messages where tenant_id = ${tenant.id} order by seq offset 300 limit 1) for update`;
        const cancel = api.callAs('developer', tenant, 'POST', '/v1/messages/cancel', {
          filter: { tag: 'spring' },
        });
        await expect.poll(() => lockWaits(api.admin, 'cancel_messages')).toHaveLength(1);
        const { userId } = tenant.members.developer;
        const remove = api.callAs('owner', tenant, 'DELETE', `/v1/admin/members/${userId}`);
        await expect.poll(() => lockWaits(api.admin, 'delete from members')).toHaveLength(1);
        return { canceling: cancel, removing: remove };
      });
      expect((await removing).status).toBe(204);
      expect(await canceling).toMatchObject({ status: 200, body: { canceled: 400, more: true } });
      expect(
        await api.admin`select from live_messages where tenant_id = ${tenant.id} and status = 'queued'`,
      ).toHaveLength(50);
    } finally {
      await watcher.end();
    }
  });
});
