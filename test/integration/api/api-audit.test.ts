import { afterAll, beforeAll, expect, test } from 'vitest';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';

let api: AdminApi;
let tenant: TestTenant;
beforeAll(async () => {
  api = await startAdminApi();
  tenant = await api.tenant();
});
afterAll(() => api[Symbol.asyncDispose]());

const asOwner = (method: string, url: string, body?: unknown) =>
  api.callAs('owner', tenant, method, url, body);
const entries = async (target: string) => {
  const { body } = await asOwner('GET', '/v1/admin/audit-log?limit=200');
  return body.items.filter((entry: { target: string }) => entry.target === target).toReversed();
};

test('an audit entry has the names and ids of the actor and the target', async () => {
  const { body: key } = await asOwner('POST', '/v1/admin/api-keys', { name: 'Shop' });
  const { userId, email } = tenant.members.owner;
  expect(await entries(key.id)).toMatchObject([
    {
      actor: userId,
      actorName: 'Someone',
      actorEmail: email,
      action: 'api_key.created',
      target: key.id,
      targetName: 'Shop',
      changes: [],
    },
  ]);
});

test('an audit entry keeps the name that the target had before the change', async () => {
  const { body: key } = await asOwner('POST', '/v1/admin/api-keys', { name: 'Before' });
  await asOwner('PATCH', `/v1/admin/api-keys/${key.id}`, { name: 'After' });
  await asOwner('DELETE', `/v1/admin/api-keys/${key.id}`);
  expect((await entries(key.id)).map((entry: { targetName: string }) => entry.targetName)).toEqual([
    'Before',
    'Before',
    'After',
  ]);
});

test('an entry for a key change lists old and new values; one for a rotation lists no value', async () => {
  const { body: key } = await asOwner('POST', '/v1/admin/api-keys', { name: 'Key', rateLimitRpm: 5 });
  await asOwner('PATCH', `/v1/admin/api-keys/${key.id}`, { rateLimitRpm: null, scopes: ['messages:read'] });
  await asOwner('POST', `/v1/admin/api-keys/${key.id}/rotate`);
  expect(await entries(key.id)).toMatchObject([
    {},
    {
      changes: [
        { field: 'scopes', from: ['messages:send', 'messages:read'], to: ['messages:read'] },
        { field: 'rateLimitRpm', from: 5, to: null },
      ],
    },
    { changes: [{ field: 'key' }] },
  ]);
});

test('an entry for an account change lists old and new settings and never a secret', async () => {
  const { body: account } = await asOwner('POST', '/v1/admin/providers', {
    provider: 'twilio',
    label: 'Main',
    publicConfig: {
      account_sid: `AC${'1'.repeat(32)}`,
      from: '+15550000001',
      formerPassword: 'by-mistake-1',
    },
    secretConfig: { authToken: 'secret-one' },
  });
  await asOwner('PATCH', `/v1/admin/providers/${account.id}`, {
    label: 'Spare',
    publicConfig: {
      account_sid: `AC${'1'.repeat(32)}`,
      from: '+15550000002',
      formerPassword: 'by-mistake-2',
    },
    secretConfig: { authToken: 'secret-two' },
  });
  await asOwner('POST', `/v1/admin/providers/${account.id}/disable`);
  const told = await entries(account.id);
  expect(told).toMatchObject([
    { action: 'provider.created', targetName: 'Main' },
    {
      action: 'provider.updated',
      changes: [
        { field: 'label', from: 'Main', to: 'Spare' },
        { field: 'publicConfig.from', from: '+15550000001', to: '+15550000002' },
        { field: 'publicConfig.formerPassword' },
      ],
    },
    { action: 'provider.secret_rotated', changes: [{ field: 'secretConfig' }] },
    { action: 'provider.disabled', changes: [{ field: 'status', to: 'disabled' }] },
  ]);
  for (const hidden of ['secret-one', 'secret-two', 'by-mistake']) {
    expect(JSON.stringify(told)).not.toContain(hidden);
  }
});

test('entries for members list the role change, and no e-mail address of a member added by subject', async () => {
  const guest = await api.person();
  const url = `/v1/admin/members/${guest.userId}`;
  await asOwner('PUT', '/v1/admin/members', { subject: guest.subject, role: 'admin' });
  const as = { as: guest, slug: tenant.slug };
  const { body: key } = await api.call('POST', '/v1/admin/api-keys', { ...as, body: { name: 'Of a guest' } });
  await asOwner('PUT', url, { role: 'viewer' });
  await asOwner('DELETE', url);
  const roles = (from: string | null, to: string | null) => [{ field: 'role', from, to }];
  expect(await entries(guest.userId)).toMatchObject([
    { action: 'member.added', targetName: guest.subject, changes: roles(null, 'admin') },
    { action: 'member.role_changed', changes: roles('admin', 'viewer') },
    { action: 'member.removed', changes: roles('viewer', null) },
  ]);
  expect(await entries(key.id)).toMatchObject([
    { actor: guest.userId, actorName: 'Someone', actorEmail: null },
  ]);
});

test('entries for the tenant list name, plan and suspension, and only the id of a platform admin', async () => {
  await asOwner('PATCH', `/v1/admin/tenants/${tenant.id}`, { name: 'Renamed' });
  const as = { as: api.platformAdmin };
  await api.call('POST', `/v1/admin/tenants/${tenant.id}/suspend`, { ...as, body: { reason: 'billing' } });
  await api.call('POST', `/v1/admin/tenants/${tenant.id}/resume`, as);
  await api.call('PATCH', `/v1/admin/tenants/${tenant.id}`, { ...as, body: { plan: 'growth' } });
  const nobody = {
    actor: api.platformAdmin.userId,
    actorName: null,
    actorEmail: null,
    targetName: 'Renamed',
  };
  expect(await entries(tenant.id)).toMatchObject([
    { action: 'tenant.updated', changes: [{ field: 'name', to: 'Renamed' }] },
    { ...nobody, action: 'tenant.suspended', changes: [{ field: 'suspension', from: null, to: 'billing' }] },
    { ...nobody, action: 'tenant.resumed', changes: [{ field: 'suspension', from: 'billing', to: null }] },
    { ...nobody, action: 'tenant.updated', changes: [{ field: 'plan', from: 'free', to: 'growth' }] },
  ]);
});

test('the audit line in the log contains no name and no e-mail address', async () => {
  const { body: key } = await asOwner('POST', '/v1/admin/api-keys', { name: 'Never in a log' });
  await expect.poll(() => api.logLines.join('')).toContain(key.id);
  expect(api.logLines.join('')).not.toContain('Never in a log');
  expect(api.logLines.join('')).not.toContain(tenant.members.owner.email);
});

test('an accepted invitation has an entry in each tenant, and so has a role that it raises', async () => {
  const other = await api.tenant();
  const person = await api.person();
  const { email, subject, userId } = person;
  const { body: invitation } = await asOwner('PUT', '/v1/admin/members', { email, role: 'developer' });
  await api.callAs('owner', other, 'PUT', '/v1/admin/members', { subject, role: 'viewer' });
  const { body: otherInvitation } = await api.callAs('owner', other, 'PUT', '/v1/admin/members', {
    email,
    role: 'admin',
  });
  await api.call('GET', '/v1/admin/me', { as: person });
  const byService = { actor: 'service', target: userId, targetName: email };
  expect(await entries(userId)).toMatchObject([
    {
      ...byService,
      action: 'member.joined',
      changes: [
        { field: 'invitation', from: invitation.userId, to: null },
        { field: 'role', from: null, to: 'developer' },
      ],
    },
  ]);
  const { body } = await api.callAs('owner', other, 'GET', '/v1/admin/audit-log?action=member.role_changed');
  expect(body.items).toMatchObject([
    {
      ...byService,
      changes: [{ field: 'invitation' }, { field: 'role', from: 'viewer', to: 'admin' }],
    },
  ]);
  const logged = api.logLines
    .map((line) => (JSON.parse(line) as { audit?: Record<string, unknown> }).audit ?? {})
    .filter((entry) => entry['target'] === userId && entry['actor'] === 'service');
  expect(logged.toSorted((a, b) => String(a['action']).localeCompare(String(b['action'])))).toMatchObject([
    {
      action: 'member.joined',
      tenantId: tenant.id,
      facts: { role: 'developer', since: expect.any(String), invitations: [invitation.userId] },
    },
    {
      action: 'member.role_changed',
      tenantId: other.id,
      facts: { role: 'admin', invitations: [otherInvitation.userId] },
    },
  ]);
});
