import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Role } from '#core/domain/tenant/role.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';

const URL = '/v1/admin/suppressions';
let api: AdminApi;
let tenant: TestTenant;
beforeAll(async () => {
  api = await startAdminApi();
  tenant = await api.tenant();
});
afterAll(() => api[Symbol.asyncDispose]());

const as = (role: Role, method: string, url: string, body?: unknown, key?: string) =>
  api.callAs(role, tenant, method, url, body, key);
const dev = (method: string, url: string, body?: unknown, key?: string) =>
  as('developer', method, url, body, key);
const newMail = (): string => `${randomUUID()}@example.com`;
const find = async (address: string) =>
  (await dev('GET', `${URL}?address=${encodeURIComponent(address)}`)).body.items;
const told = (type: string, id: string) =>
  api.admin`select e.details from tenant_events e join changes c on e.event_seq = any (c.numbers)
    where e.type = ${type} and e.details ->> 'suppressionId' = ${id}`;

describe('an entry', () => {
  test('is created, read, found by its address in any case of the domain, and deleted', async () => {
    const local = randomUUID();
    const made = await dev('POST', URL, {
      channel: 'email',
      address: `${local}@EXAMPLE.com`,
      reason: 'unsubscribe',
    });
    expect(made.status).toBe(201);
    expect(made.body).toEqual({
      id: expect.any(String),
      channel: 'email',
      address: `${local}@example.com`,
      hashed: false,
      reason: 'unsubscribe',
      scope: 'marketing',
      source: 'api',
      messageId: null,
      expiresAt: null,
      createdAt: expect.any(String),
    });
    const { id } = made.body;
    expect((await dev('GET', `${URL}/${id}`)).body).toEqual(made.body);
    expect(await find(`${local}@Example.COM`)).toEqual([made.body]);
    const { createdAt: _, id: _id, ...facts } = made.body;
    expect(await told('suppression.added', id)).toMatchObject([
      { details: { suppressionId: id, address: facts.address, reason: 'unsubscribe', hashed: false } },
    ]);

    expect((await dev('DELETE', `${URL}/${id}`)).status).toBe(204);
    expect((await dev('GET', `${URL}/${id}`)).status).toBe(404);
    expect((await dev('DELETE', `${URL}/${id}`)).status).toBe(404);
    expect(await find(made.body.address)).toEqual([]);
    expect(await told('suppression.removed', id)).toHaveLength(1);
    const { body: log } = await as('admin', 'GET', '/v1/admin/audit-log?limit=2');
    expect(log.items).toMatchObject([
      { action: 'suppression.removed', target: id, targetName: `${local[0]}***@example.com` },
      { action: 'suppression.added', target: id, actor: tenant.members.developer.userId },
    ]);
  });

  test('that is hashed stores and shows no address, but is found by it', async () => {
    const address = newMail();
    const made = await dev('POST', URL, { channel: 'email', address, hashed: true });
    expect(made.body).toMatchObject({ address: null, hashed: true, reason: 'manual', scope: 'all' });
    expect(await find(address)).toEqual([made.body]);
    expect(made.text).not.toContain(address);
    const stored =
      await api.admin`select to_jsonb(s)::text as row from suppressions s where id = ${made.body.id}
      union all select to_jsonb(e)::text from tenant_events e where e.details ->> 'suppressionId' = ${made.body.id}
      union all select to_jsonb(a)::text from audit_log a where a.target = ${made.body.id}`;
    expect(stored.length).toBeGreaterThan(2);
    expect(JSON.stringify(stored)).not.toContain(address.slice(0, 8));
    expect(api.logLines.join()).not.toContain(address);
  });

  test('replaces one for the same recipient and reason, and is kept beside one for another reason', async () => {
    const address = newMail();
    const first = (await dev('POST', URL, { channel: 'email', address, reason: 'complaint' })).body;
    const other = (await dev('POST', URL, { channel: 'email', address, reason: 'hard_bounce' })).body;
    const second = (await dev('POST', URL, { channel: 'email', address, reason: 'complaint', scope: 'all' }))
      .body;
    expect(second.id).not.toBe(first.id);
    expect(await find(address)).toEqual(expect.arrayContaining([other, second]));
    expect(await find(address)).toHaveLength(2);
    expect((await dev('GET', `${URL}/${first.id}`)).status).toBe(404);
  });

  test('is 404 and not listed after it expires', async () => {
    const address = newMail();
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const { id } = (await dev('POST', URL, { channel: 'email', address, expiresAt })).body;
    expect(await find(address)).toMatchObject([{ id, expiresAt }]);
    await api.admin`update suppressions set expires_at = now() where id = ${id}`;
    expect(await find(address)).toEqual([]);
    expect((await dev('GET', `${URL}/${id}`)).status).toBe(404);
    expect((await dev('DELETE', `${URL}/${id}`)).status).toBe(404);
  });

  test('is replayed by its idempotency key after it expires', async () => {
    const at = Date.now() + 1_000;
    const body = { channel: 'email', address: newMail(), expiresAt: new Date(at).toISOString() };
    const first = await dev('POST', URL, body, 'short-lived');
    expect(first.status).toBe(201);
    while (Date.now() <= at) await sleep(50);
    const second = await dev('POST', URL, body, 'short-lived');
    expect([second.status, second.headers['idempotent-replayed']]).toEqual([201, 'true']);
    expect(second.body).toEqual(first.body);
    expect((await dev('POST', URL, body, 'another')).status).toBe(400);
  });

  test('is created once per idempotency key', async () => {
    const [key, address] = [randomUUID(), newMail()];
    const first = await dev('POST', URL, { channel: 'email', address }, key);
    const second = await dev('POST', URL, { channel: 'email', address }, key);
    expect(second.body).toEqual(first.body);
    expect(second.headers['idempotent-replayed']).toBe('true');
  });

  test.each([
    [{ channel: 'email', address: 'Ann <ann@example.com>' }, 'address'],
    [{ channel: 'sms', address: 'ann@example.com' }, 'address'],
    [{ channel: 'push', address: '   ' }, 'address'],
    [{ channel: 'email', address: 'a@example.com', expiresAt: '2020-01-01T00:00:00Z' }, 'expiresAt'],
    [{ channel: 'email', address: 'a@example.com', reason: 'bored' }, 'reason'],
    [{ channel: 'email' }, 'address'],
  ])('%j is refused, and the answer names the field', async (body, field) => {
    const before = await api.admin`select count(*) as n from suppressions`;
    const reply = await dev('POST', URL, body);
    expect(reply.status).toBe(400);
    expect(reply.body.details).toMatchObject([{ field }]);
    expect(await api.admin`select count(*) as n from suppressions`).toEqual(before);
  });

  test('is refused for viewers with 403', async () => {
    expect((await as('viewer', 'GET', URL)).status).toBe(403);
    expect((await as('viewer', 'POST', URL, { channel: 'push', address: 'x' })).status).toBe(403);
  });
});

test.each(['(', '"', '+1', 'ä', '💥', '@', '\u{202e}'])(
  'an address of many %j can be looked up, and stored for push only',
  async (part) => {
    const address = part.repeat(4_096 / part.length);
    expect(await find(address)).toEqual([]);
    const made = await dev('POST', URL, { channel: 'push', address });
    expect(made.status).toBe(201);
    expect(await find(address)).toEqual([made.body]);
    const refused = await dev('POST', URL, { channel: 'email', address });
    expect(refused).toMatchObject({ status: 400, body: { details: [{ field: 'address' }] } });
  },
);

test('an entry that replaces another is the newest of the list', async () => {
  const mine = await api.tenant();
  const put = (n: number) =>
    api.callAs('developer', mine, 'POST', URL, {
      channel: 'sms',
      address: `+1555000000${n}`,
      reason: 'manual',
    });
  for (const n of [0, 1, 2, 0]) await put(n);
  const { items } = (await api.callAs('developer', mine, 'GET', URL)).body;
  expect(items.map(({ address }: { address: string }) => address.at(-1))).toEqual(['0', '2', '1']);
});

test('the list is paged newest first and can be filtered', async () => {
  const mine = await api.tenant();
  const call = (url: string) => api.callAs('developer', mine, 'GET', url);
  for (let n = 0; n < 5; n++) {
    await api.callAs('developer', mine, 'POST', URL, {
      channel: n % 2 === 0 ? 'sms' : 'push',
      address: `+1555000000${n}`,
      reason: n === 3 ? 'opt_out' : 'manual',
    });
  }
  const first = (await call(`${URL}?limit=3`)).body;
  const second = (await call(`${URL}?limit=3&cursor=${first.nextCursor}`)).body;
  const all = [...first.items, ...second.items];
  expect(all.map(({ address }) => address.at(-1))).toEqual(['4', '3', '2', '1', '0']);
  expect(second.nextCursor).toBeNull();
  const by = async (filter: string) =>
    (await call(`${URL}?${filter}`)).body.items.map(({ address }: { address: string }) => address.at(-1));
  expect(await by('channel=push')).toEqual(['3', '1']);
  expect(await by('reason=opt_out')).toEqual(['3']);
  expect(await by('scope=marketing')).toEqual([]);
  expect(await by('source=api&channel=sms')).toEqual(['4', '2', '0']);
  expect(await by(`address=${encodeURIComponent('+15550000001')}`)).toEqual(['1']);
  // In a query a bare + is a space.
  expect(await by('address=+15550000001')).toEqual(['1']);
  expect(await by(`address=${encodeURIComponent('+15550000001')}&channel=sms`)).toEqual([]);
  await api.callAs('developer', mine, 'POST', URL, { channel: 'email', address: 'ann+news@example.com' });
  expect(await by('address=ann+news@example.com')).toEqual(['m']);
});
