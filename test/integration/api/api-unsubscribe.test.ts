import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { maskRecipient } from '#core/domain/recipient/mask-recipient.ts';
import { normalRecipient } from '#core/domain/recipient/normal-recipient.ts';
import { unsubscribeKey, unsubscribeToken } from '#core/domain/recipient/unsubscribe-token.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';
import { RECEIPT_PEPPER } from '#test/support/api.ts';

const ONE_CLICK = 'List-Unsubscribe=One-Click';
const key = unsubscribeKey(RECEIPT_PEPPER);
let api: AdminApi;
let tenant: TestTenant;
beforeAll(async () => {
  api = await startAdminApi();
  tenant = await api.tenant();
});
afterAll(() => api[Symbol.asyncDispose]());

function newLink(tenantId: string = tenant.id, address = `${randomUUID()}@example.com`) {
  const about = { tenantId, messageId: randomUUID(), address };
  const token = unsubscribeToken(key, { ...about, issuedAt: Date.now() });
  return { ...about, url: `/v1/unsubscribe/${token}` };
}

const click = (url: string) =>
  api.app.inject({
    method: 'POST',
    url,
    headers: { 'content-type': 'application/x-www-form-urlencoded' },
    payload: ONE_CLICK,
  });
const find = async (address: string) => {
  const url = `/v1/admin/suppressions?address=${encodeURIComponent(address)}`;
  return (await api.callAs('developer', tenant, 'GET', url)).body.items;
};

test('a one-click unsubscribe suppresses the recipient in the tenant for marketing only', async () => {
  const { url, address, messageId } = newLink();
  expect((await api.app.inject({ url })).statusCode).toBe(200);
  expect(await find(address)).toEqual([]);
  expect((await click(url)).statusCode).toBe(200);
  const [entry, ...others] = await find(address);
  expect(others).toEqual([]);
  expect(entry).toMatchObject({
    channel: 'email',
    address,
    reason: 'unsubscribe',
    scope: 'marketing',
    source: 'recipient',
    messageId,
    expiresAt: null,
  });
  const { body: log } = await api.callAs('admin', tenant, 'GET', '/v1/admin/audit-log?limit=1');
  expect(log.items).toMatchObject([
    {
      action: 'suppression.added',
      target: entry.id,
      actor: 'recipient',
      targetName: maskRecipient('email', address),
    },
  ]);
});

test.each([
  ['with many letters', `${'a'.repeat(64)}@${'b'.repeat(60)}.${'c'.repeat(60)}.example.com`],
  ['with many bytes', `${'ü'.repeat(32)}@${'ä'.repeat(60)}.${'ö'.repeat(60)}.example.com`],
])('the unsubscribe link works for the longest possible address, %s', async (_, sent) => {
  const address = normalRecipient('email', sent) ?? sent;
  const { url } = newLink(tenant.id, address);
  expect((await api.app.inject({ url })).statusCode).toBe(200);
  expect((await click(url)).statusCode).toBe(200);
  expect(await find(address)).toMatchObject([{ address, reason: 'unsubscribe' }]);
});

test('a second link for the same recipient changes nothing and emits no event', async () => {
  const first = newLink();
  expect((await click(first.url)).statusCode).toBe(200);
  const [entry] = await find(first.address);
  const again = {
    tenantId: tenant.id,
    messageId: randomUUID(),
    address: first.address,
    issuedAt: Date.now(),
  };
  expect((await click(`/v1/unsubscribe/${unsubscribeToken(key, again)}`)).statusCode).toBe(200);
  expect(await find(first.address)).toEqual([entry]);
  const told = await api.admin`select from tenant_events where type = 'suppression.added'
    and details ->> 'address' = ${first.address}`;
  expect(told).toHaveLength(1);
});

test.each(['the same link', 'a link of another mail'])(
  'a recipient whose entry was deleted can unsubscribe again with %s',
  async (by) => {
    const { url, address } = newLink();
    await click(url);
    const [entry] = await find(address);
    expect(
      (await api.callAs('developer', tenant, 'DELETE', `/v1/admin/suppressions/${entry.id}`)).status,
    ).toBe(204);
    const next = by === 'the same link' ? url : newLink(tenant.id, address).url;
    expect((await click(next)).statusCode).toBe(200);
    expect(await find(address)).toHaveLength(1);
  },
);

test('an unsubscribe by the recipient makes a temporary entry permanent', async () => {
  const { url, address } = newLink();
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const entry = { channel: 'email', address, reason: 'unsubscribe', scope: 'all', expiresAt };
  expect((await api.callAs('developer', tenant, 'POST', '/v1/admin/suppressions', entry)).status).toBe(201);
  expect((await click(url)).statusCode).toBe(200);
  expect(await find(address)).toMatchObject([
    { reason: 'unsubscribe', scope: 'all', source: 'recipient', expiresAt: null },
  ]);
});

test('an unsubscribe keeps the address of a hashed entry hidden, also in the audit log', async () => {
  const { url, address } = newLink();
  const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
  const entry = { channel: 'email', address, reason: 'unsubscribe', hashed: true, expiresAt };
  expect((await api.callAs('developer', tenant, 'POST', '/v1/admin/suppressions', entry)).status).toBe(201);
  expect((await click(url)).statusCode).toBe(200);
  expect(await find(address)).toMatchObject([{ address: null, hashed: true, source: 'recipient' }]);
  const { body: log } = await api.callAs('admin', tenant, 'GET', '/v1/admin/audit-log?limit=2');
  expect(log.items).toMatchObject([
    { action: 'suppression.added', actor: 'recipient', targetName: null },
    { action: 'suppression.added', targetName: null },
  ]);
});

test('an unsubscribe link of an unknown tenant is 404', async () => {
  const answer = await click(newLink(randomUUID()).url);
  expect(answer.statusCode).toBe(404);
  expect(answer.json()).toMatchObject({ statusCode: 404, code: 'not_found' });
});
