import { request } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';
import { PEPPER } from '#test/support/api.ts';
import { lockWaits } from '#test/support/lock-waits.ts';
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

describe("a change that waits for the tenant's lock", () => {
  const roleOf = ({ id }: TestTenant, userId: string, role: string) =>
    api.admin`update despatch.members set role = ${role} where tenant_id = ${id} and user_id = ${userId}`;
  const without = ({ id }: TestTenant, userId: string) =>
    api.admin`delete from despatch.members where tenant_id = ${id} and user_id = ${userId}`;
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
