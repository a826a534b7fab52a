import { randomUUID } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { workerStore } from '#core/store/worker-store.ts';
import { createAuditTrail } from '#core/platform/telemetry/audit-trail.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import { postgres } from '#core/platform/postgres/postgres-driver.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import {
  deletionOwner,
  managedTenantStore,
  type GoneResource,
  type WantedTenant,
} from '#core/store/tenants/managed-tenants.ts';
import { startAdminApi, type AdminApi, type TestTenant } from '#test/support/admin-api.ts';
import { backdatePurge } from '#test/support/backdate-purge.ts';
import { acceptBatch, acceptRow, ADDRESS_KEYS } from '#test/support/seed.ts';
import { testVault, type TestVault } from '#test/support/servers.ts';
import { main } from '../../../deploy/restore/replay-audit.ts';

/*
 * The test creates objects, copies the database, withdraws rights in the original, restores the copy, and replays there the audit
 * lines from the logs of api and controller.
 */
const stack = new AsyncDisposableStack();
let api: AdminApi;
let vault: TestVault;
let restored: Sql;
let restoredUrl: string;
let file: string;
let tenant: TestTenant;
let other: TestTenant;
/** Has a removed and a demoted member who accepted an invitation to a second membership. */
let merging: TestTenant;
const ids: Record<string, string> = {};
const lines: string[] = [];

const put = async (path: string, body?: unknown): Promise<Record<string, string>> =>
  done(await api.callAs('owner', tenant, 'PUT', path, body));
const post = async (path: string, body?: unknown): Promise<Record<string, string>> =>
  done(await api.callAs('owner', tenant, 'POST', path, body));
const remove = async (path: string): Promise<unknown> =>
  done(await api.callAs('owner', tenant, 'DELETE', path));
const platform = async (id: string, action: string): Promise<unknown> =>
  done(
    await api.call('POST', `/v1/admin/tenants/${id}/${action}`, {
      as: api.platformAdmin,
      body: action === 'suspend' ? { reason: 'abuse' } : {},
    }),
  );

function done(reply: { status: number; body: unknown }): Record<string, string> {
  expect(reply).toMatchObject({ status: expect.toSatisfy((status: number) => status < 300) as number });
  return reply.body as Record<string, string>;
}

async function providerOf(label: string): Promise<string> {
  const made = await post('/v1/admin/providers', { provider: 'simulator-sms', label, secretConfig: {} });
  return made['id'] ?? '';
}

function wanted(slug: string, change: Partial<WantedTenant> = {}): WantedTenant {
  const uid = randomUUID();
  return {
    id: uid as TenantId,
    slug,
    name: slug,
    plan: 'free',
    limits: {},
    overrides: {},
    suspension: null,
    uid,
    ref: `team/${slug}`,
    createdAt: '2026-01-01T00:00:00Z',
    generation: 1,
    planUid: 'plan',
    planGeneration: 1,
    owners: [],
    ...change,
  };
}

const goneOf = ({ slug, uid, ref, createdAt }: WantedTenant): GoneResource => ({ slug, uid, ref, createdAt });

/**
 * Copies the database as it is now. This needs an original without connections; the terminated sessions reconnect by themselves.
 */
async function snapshot(name: string): Promise<string> {
  const url = new URL(api.database.superuserUrl);
  url.pathname = 'postgres';
  const serverUrl = url.href;
  const server = postgres(serverUrl, { max: 1, onnotice: () => {} });
  await server`alter database ${server(api.database.name)} allow_connections false`;
  await server`select pg_terminate_backend(pid, 30000) from pg_stat_activity where datname = ${api.database.name}`;
  await server`create database ${server(name)} template ${server(api.database.name)}`;
  await server`alter database ${server(api.database.name)} allow_connections true`;
  await server.end();
  stack.defer(async () => {
    const again = postgres(serverUrl, { max: 1, onnotice: () => {} });
    await again`drop database if exists ${again(name)} with (force)`;
    await again.end();
  });
  url.pathname = name;
  return url.href;
}

async function replay(...args: string[]): Promise<{ code: number; text: string }> {
  let text = '';
  const env = { DATABASE_URL: restoredUrl, VAULT_ADDR: vault.address, VAULT_TOKEN: vault.rootToken };
  const code = await main(
    ['--transit-mount', vault.mount, ...args, file],
    env,
    (part) => void (text += part),
  );
  return { code, text };
}

const keyExists = async (id: string): Promise<boolean> =>
  (await vault.request('GET', `${vault.mount}/keys/despatch-${id}`)).status === 200;

beforeAll(async () => {
  [api, vault] = await Promise.all([startAdminApi(), testVault()]);
  stack.use(api);
  stack.use(vault);
  const log = createLogger({
    level: 'info',
    component: 'controller',
    destination: { write: (line) => void lines.push(line) },
  });
  const controllerSql = postgres(api.database.controllerUrl, {
    max: 1,
    connection: { search_path: 'despatch' },
  });
  stack.defer(() => controllerSql.end());
  const store = managedTenantStore(controllerSql, api.issuer.issuer, createAuditTrail(log));
  [tenant, other, merging] = await Promise.all([api.tenant(), api.tenant(), api.tenant()]);

  for (const name of ['revoked', 'rotated', 'narrowed', 'kept'])
    ids[name] = (await post('/v1/admin/api-keys', { name }))['id'] ?? '';
  for (const label of ['disabled', 'deleted', 'untouched']) ids[label] = await providerOf(label);
  const turned = await post('/v1/admin/providers', {
    provider: 'twilio',
    label: 'turned',
    publicConfig: { accountSid: `AC${'0'.repeat(32)}`, from: '+15550000100' },
    secretConfig: { authToken: 'token0of0the0account' },
  });
  ids['turned'] = turned['id'] ?? '';
  for (const name of ['removedEndpoint', 'pausedEndpoint', 'resumedEndpoint', 'keptEndpoint']) {
    const body = {
      url: `https://example.com/${name}`,
      eventTypes: ['*'],
      headers: { 'X-Token': 'token of tests' },
    };
    ids[name] = (await post('/v1/admin/webhook-endpoints', body))['id'] ?? '';
  }
  await post(`/v1/admin/webhook-endpoints/${ids['resumedEndpoint']}/pause`);
  const invited = `${randomUUID()}@example.org`;
  await put('/v1/admin/members', { email: invited, role: 'admin' });
  const [leaver, demoted] = await Promise.all([api.person(), api.person()]);
  const putMerging = async (body: unknown, path = '') =>
    done(await api.callAs('owner', merging, 'PUT', `/v1/admin/members${path}`, body));
  for (const { subject, email } of [leaver, demoted]) {
    await putMerging({ subject, role: 'viewer' });
    await putMerging({ email, role: 'admin' });
  }
  await platform(other.id, 'suspend');
  const delivery = workerStore(api.database.open('worker', 1), 10_000, ADDRESS_KEYS);
  const applied = createAuditTrail(log);
  const brake = async (channel: 'sms' | 'email' | 'push'): Promise<void> => {
    const facts = { level: 'held', reason: 'complaint_rate', rate: 0.01, bound: 0.003 } as const;
    const decided = { ...facts, tenantId: other.id, channel, gapMs: 1_000, liftedAt: null };
    for (const entry of await delivery.applyBrakes([decided])) applied(entry);
  };
  await brake('sms');
  const suspended = await api.tenant();
  ids['suspended'] = suspended.id;
  const removed = await api.tenant();
  ids['removed'] = removed.id;
  await vault.request('POST', `${vault.mount}/keys/despatch-${removed.id}`);
  const [namer, named] = await Promise.all([api.person(), api.person()]);
  const managed = {
    retained: wanted(randomSlug()),
    purged: wanted(randomSlug()),
    held: wanted(randomSlug()),
    retainedForAbuse: wanted(randomSlug()),
    retainedAsItWas: wanted(randomSlug(), { suspension: 'billing' }),
    retainedAndResumed: wanted(randomSlug()),
    named: wanted(randomSlug(), { owners: [{ subject: namer.subject }] }),
  };
  for (const [name, one] of Object.entries(managed)) {
    await store.apply(one);
    ids[name] = one.id;
    await vault.request('POST', `${vault.mount}/keys/despatch-${one.id}`);
  }
  const sender = { tenantId: managed.purged.id, slug: '', apiKeyId: randomUUID() };
  for (let n = 0; n < 3; n += 1) await acceptBatch(api.admin, [acceptRow(sender)]);

  const key = await post('/v1/admin/api-keys', { name: 'sender', mode: 'test' });
  const headers = { 'x-service-key': key['key'] ?? '' };
  /** Cancels a message through the key of its mode. */
  const cancelMessage = async (id: string | undefined) =>
    done(await api.call('POST', `/v1/messages/${id}/cancel`, { headers }));
  for (const name of ['erasedSmall', 'erasedLarge', 'erasedWhileLive', 'notErased']) {
    const bodyHtml = 'x'.repeat(name === 'erasedLarge' ? 200_000 : 10);
    const from = 'Acme <hello@example.com>';
    const body = { channel: 'email', to: 'delivered@simulator.invalid', from, subject: 'a', bodyHtml };
    const sent = done(await api.call('POST', '/v1/messages', { headers, body }));
    ids[name] = sent['id'] ?? '';
    if (name !== 'erasedWhileLive') await cancelMessage(ids[name]);
  }

  restoredUrl = await snapshot(`restored_${randomUUID().slice(0, 8)}`);
  restored = postgres(restoredUrl, { max: 1, onnotice: () => {}, connection: { search_path: 'despatch' } });
  stack.defer(() => restored.end());

  const patch = (path: string, body: unknown) => api.callAs('owner', tenant, 'PATCH', path, body);
  await remove(`/v1/admin/api-keys/${ids['revoked']}`);
  await post(`/v1/admin/api-keys/${ids['rotated']}/rotate`, { graceSeconds: 0 });
  done(await patch(`/v1/admin/api-keys/${ids['narrowed']}`, { scopes: ['messages:read'] }));
  done(await patch(`/v1/admin/api-keys/${ids['kept']}`, { name: 'another name' }));
  await post(`/v1/admin/providers/${ids['disabled']}/disable`);
  await remove(`/v1/admin/providers/${ids['deleted']}`);
  for (const address of ['+15550000001', '+15550000002'])
    ids[address] =
      (await post('/v1/admin/suppressions', { channel: 'sms', address, reason: 'opt_out' }))['id'] ?? '';
  await remove(`/v1/admin/suppressions/${ids['+15550000002']}`);
  done(
    await api.call('POST', '/v1/admin/suppressions/import', {
      as: tenant.members.owner,
      slug: tenant.slug,
      headers: { 'content-type': 'application/x-ndjson' },
      body: { channel: 'sms', address: '+15550000003' },
    }),
  );
  await remove(`/v1/admin/webhook-endpoints/${ids['removedEndpoint']}`);
  await post(`/v1/admin/webhook-endpoints/${ids['pausedEndpoint']}/pause`);
  await post(`/v1/admin/webhook-endpoints/${ids['resumedEndpoint']}/resume`);
  const turn = `/v1/admin/providers/${ids['turned']}/rotate-receipt-url`;
  for (const graceSeconds of [600, 0]) await post(turn, { graceSeconds });
  await cancelMessage(ids['erasedWhileLive']);
  for (const name of ['erasedSmall', 'erasedLarge', 'erasedWhileLive'])
    await remove(`/v1/admin/messages/${ids[name]}/content`);
  await remove(`/v1/admin/members/${tenant.members.developer.userId}`);
  await put(`/v1/admin/members/${tenant.members.admin.userId}`, { role: 'viewer' });
  await put(`/v1/admin/members/${tenant.members.viewer.userId}`, { role: 'owner' });
  // Accepts the invitation under a user id that the copy does not contain; this id is then removed.
  const guest = await api.person({ email: invited });
  done(await api.call('GET', '/v1/admin/me', { as: guest }));
  await remove(`/v1/admin/members/${guest.userId}`);
  // Merges the invitations, which have other ids and are younger, into the memberships.
  for (const as of [leaver, demoted]) done(await api.call('GET', '/v1/admin/me', { as }));
  done(await api.callAs('owner', merging, 'DELETE', `/v1/admin/members/${leaver.userId}`));
  await putMerging({ role: 'viewer' }, `/${demoted.userId}`);
  await platform(other.id, 'resume');
  await brake('push');
  await platform(other.id, 'lift-brake');
  await brake('email');
  await platform(suspended.id, 'suspend');
  await store.retain(goneOf(managed.retained));
  await store.apply({ ...managed.held, generation: 2, suspension: 'billing' });
  await store.apply({ ...managed.retainedForAbuse, generation: 2, suspension: 'abuse' });
  // Names an owner whom the copy does not know; an owner then removes this one.
  const owners = [{ subject: namer.subject }, { subject: named.subject }];
  await store.apply({ ...managed.named, generation: 2, owners });
  const as = { as: namer, slug: managed.named.slug };
  done(await api.call('DELETE', `/v1/admin/members/${named.userId}`, as));
  for (const one of [managed.retainedForAbuse, managed.retainedAsItWas, managed.retainedAndResumed])
    await store.retain(goneOf(one));
  await platform(managed.retainedAndResumed.id, 'resume');
  const gone = goneOf(managed.purged);
  await store.beginPurge(gone);
  done(await api.call('DELETE', `/v1/admin/tenants/${removed.id}`, { as: api.platformAdmin }));
  for (const owned of [gone, { slug: removed.slug, uid: deletionOwner(removed.id) }]) {
    await backdatePurge(api.admin, owned.slug);
    while ((await store.purgeSome(owned, 100)).outcome !== 'empty');
    await store.endPurge(owned);
  }
  // Vault was restored too, to a time when the key existed.

  const folder = await mkdtemp(join(tmpdir(), 'despatch-replay-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  file = join(folder, 'log.ndjson');
  const wrapped = lines.map((line) => JSON.stringify({ stream: 'stdout', log: line }));
  const prefixed = api.logLines.map((line) => `[pod/despatch-api-0/api] ${line.trimEnd()}`);
  const noise = [
    '',
    'no JSON at all {',
    '{"event":"other","audit":1}',
    '{"level":"info","msg":"audit of nothing"}',
  ];
  await writeFile(file, [...noise, ...wrapped, ...prefixed, ...noise].join('\n'));
});

afterAll(() => stack.disposeAsync());

function randomSlug(): string {
  return `s-${randomUUID().slice(0, 8)}`;
}

/** Tenants whose resources are deleted after the restore point. */
const RETAINED = ['retained', 'retainedForAbuse', 'retainedAsItWas', 'retainedAndResumed'];

/** Returns from the restored database everything that was changed. */
async function state(): Promise<Record<string, unknown>> {
  const keys = await restored<{ id: string; ended: boolean; scopes: string[] }[]>`
    select id, revoked_at is not null or coalesce(expires_at <= now(), false) as ended, scopes from api_keys where tenant_id = ${tenant.id}`;
  const accounts =
    await restored`select id, status, ciphertext is null as empty, receipt_version from provider_accounts where tenant_id = ${tenant.id}`;
  const endpoints = await restored`
    select id, status, deleted_at is not null and secret = '' and headers = '{}' as gone from webhook_endpoints
    where tenant_id = ${tenant.id}`;
  const members = await restored`
    select coalesce(u.subject, 'invited') as who, m.role from members m join users u on u.id = m.user_id where m.tenant_id = ${tenant.id}`;
  const fixed = Object.values(merging.members).map(({ userId }) => userId);
  const merged = await restored`
    select u.subject is null as invited, m.role from members m join users u on u.id = m.user_id
    where m.tenant_id = ${merging.id} and u.id <> all (${fixed}::uuid[]) order by invited, role`;
  const tenants = await restored`select id, status, suspension_reason, owner_uid from tenants`;
  const of = <Row extends Record<string, unknown>>(rows: readonly Row[], id: string | undefined) =>
    rows.find((row) => row['id'] === id);
  const roleOf = ({ subject }: { subject: string }) => members.find(({ who }) => who === subject)?.['role'];
  const facts = (id: string | undefined) => {
    const row = of(tenants, id);
    return row === undefined ? 'absent' : [row['status'], row['suspension_reason']].join(' ').trim();
  };
  const { owner, admin, developer, viewer } = tenant.members;
  return {
    keys: ['revoked', 'rotated', 'narrowed', 'kept'].map((name) => [
      of(keys, ids[name])?.ended,
      of(keys, ids[name])?.scopes.length,
    ]),
    accounts: ['disabled', 'deleted', 'untouched'].map((name) => of(accounts, ids[name])?.['status']),
    secretOfDeleted: of(accounts, ids['deleted'])?.['empty'],
    receiptVersion: of(accounts, ids['turned'])?.['receipt_version'],
    endpoints: ['removedEndpoint', 'pausedEndpoint', 'resumedEndpoint', 'keptEndpoint'].map((name) => {
      const endpoint = of(endpoints, ids[name]);
      return endpoint?.['gone'] === true ? 'gone' : endpoint?.['status'];
    }),
    roles: [owner, admin, developer, viewer, { subject: 'invited' }].map(roleOf),
    merged: merged.map(({ invited, role }) => `${invited === true ? 'invited ' : ''}${role as string}`),
    tenants: [other.id, ...['suspended', 'held', 'purged', 'removed'].map((name) => ids[name])].map(facts),
    brakes: (
      await restored`select channel from brakes where tenant_id = ${other.id} and level is not null order by channel`
    ).map(({ channel }) => channel as string),
    // Reports about messages that were final before a lift must not count.
    lifted: (
      await restored`select channel from brakes where tenant_id = ${other.id} and lifted_at is not null order by channel`
    ).map(({ channel }) => channel as string),
    retained: RETAINED.map((name) => facts(ids[name])),
    owned: RETAINED.filter((name) => of(tenants, ids[name])?.['owner_uid'] !== null),
    suppressed: [
      ...(await restored`select channel, address, reason, scope from suppressions where tenant_id = ${tenant.id}`),
    ],
    messages: (await restored`select from messages where tenant_id = ${ids['purged'] ?? ''}`).length,
    contents: await Promise.all(
      ['erasedSmall', 'erasedLarge', 'erasedWhileLive', 'notErased'].map(async (name) => {
        const [row] = await restored`
          select m.content is not null
            or exists (select from message_contents c where c.message_seq = m.seq and c.purge_on = m.purge_on) as kept
          from messages m where m.id = ${ids[name] ?? ''}`;
        return row?.['kept'] as boolean;
      }),
    ),
  };
}

const REVIVED = {
  keys: [
    [false, 2],
    [false, 2],
    [false, 2],
    [false, 2],
  ],
  accounts: ['unverified', 'unverified', 'unverified'],
  secretOfDeleted: false,
  receiptVersion: 1,
  endpoints: ['active', 'active', 'paused', 'active'],
  suppressed: [],
  roles: ['owner', 'admin', 'developer', 'viewer', 'admin'],
  merged: ['viewer', 'viewer', 'invited admin', 'invited admin'],
  tenants: ['suspended abuse', 'active', 'active', 'active', 'active'],
  retained: ['active', 'active', 'suspended billing', 'active'],
  owned: RETAINED,
  brakes: ['sms'],
  lifted: [],
  messages: 3,
  contents: [true, true, true, true],
};

const REPLAYED = {
  keys: [
    [true, 2],
    [true, 2],
    [false, 1],
    [false, 2],
  ],
  accounts: ['disabled', 'deleted', 'unverified'],
  secretOfDeleted: true,
  receiptVersion: 3,
  endpoints: ['gone', 'paused', 'active', 'active'],
  // The log contains no addresses.
  suppressed: [{ channel: 'sms', address: null, reason: 'opt_out', scope: 'all' }],
  // The replay never raises rights: people must promote again the viewer who had become an owner since.
  roles: ['owner', 'viewer', undefined, 'viewer', undefined],
  // Nobody regains a role at the next sign-in, from an invitation that was accepted.
  merged: ['viewer', 'invited viewer'],
  tenants: ['active', 'suspended abuse', 'suspended billing', 'absent', 'absent'],
  retained: ['suspended manual', 'suspended abuse', 'suspended billing', 'active'],
  owned: [],
  brakes: ['email'],
  lifted: ['push', 'sms'],
  messages: 0,
  // A message that waits again keeps its content, for the worker.
  contents: [false, false, true, true],
};

describe('the audit lines of api and controller', () => {
  const entries = () =>
    [...lines, ...api.logLines]
      .map(
        (line) => JSON.parse(line) as { event?: string; component: string; audit: Record<string, unknown> },
      )
      .filter(({ event }) => event === 'audit');

  test('contain each committed change once, and neither addresses nor secrets', async () => {
    const told = entries();
    const stored = await api.admin`select id from audit_log`;
    // A purged tenant's rows in the audit log are purged too.
    const gone = new Set<unknown>([ids['purged'], ids['removed']]);
    const mine = told.filter(({ audit }) => !gone.has(audit['tenantId']));
    expect(new Set(mine.map(({ audit }) => audit['id']))).toEqual(
      new Set(stored.map(({ id }) => id as unknown)),
    );
    expect(mine).toHaveLength(stored.length);
    expect(told[0]?.audit).toMatchObject({
      v: 1,
      seq: expect.any(Number) as number,
      actor: expect.any(String) as string,
    });
    expect(JSON.stringify(told)).not.toMatch(/@|dsp_|\[redacted\]/);
  });

  test('contain no rejected change', async () => {
    const before = entries().length;
    const reply = await api.callAs(
      'admin',
      tenant,
      'DELETE',
      `/v1/admin/members/${tenant.members.owner.userId}`,
    );
    expect(reply.status).toBe(403);
    expect(entries()).toHaveLength(before);
  });
});

test('a restore revives revoked rights, and a replay without --apply changes nothing', async () => {
  expect(await state()).toMatchObject(REVIVED);
  const { code, text } = await replay();
  expect(code).toBe(0);
  expect(text).toMatch(/Would be done.*\n(.*\n)* +1 {2}keys revoked/);
  expect(await state()).toMatchObject(REVIVED);
  for (const name of ['purged', 'removed']) expect(await keyExists(ids[name] ?? '')).toBe(true);
});

test('a replay reports the removed members whom a resource would make owners again', async () => {
  expect((await replay()).text).toMatch(
    new RegExp(`when resources are applied.*:\\n +1 {2}${ids['named']}\\n`),
  );
});

test('a replay with --apply revokes and purges again, and changes nothing else', async () => {
  const { code, text } = await replay('--apply');
  expect(code).toBe(0);
  for (const line of [
    '1  keys revoked',
    '1  keys expired',
    '1  keys narrowed',
    '4  members removed',
    '2  roles lowered',
    // The imported addresses are in no log, so the replay cannot suppress them again.
    '1  suppression.imported',
    '2  contents of messages erased',
    '1  message.content_erased',
  ])
    expect(text).toContain(line);
  expect(await state()).toMatchObject(REPLAYED);
  for (const name of ['purged', 'removed']) expect(await keyExists(ids[name] ?? '')).toBe(false);
  expect(await keyExists(ids['retained'] ?? '')).toBe(true);
  // The audit log is complete again, with the original times, but for the erasure that is not done yet.
  const [lost] = await api.admin`select count(*)::integer as n from audit_log`;
  const [found] = await restored`select count(*)::integer as n from audit_log`;
  expect(found?.['n']).toBe(Number(lost?.['n']) - 1);
});

test('a second replay changes nothing, and keeps a suspension that was lifted in between', async () => {
  await restored`select set_config('app.tenant', ${ids['suspended'] ?? ''}, false)`;
  await restored`select set_suspension(${ids['suspended'] ?? ''}, null, 'someone')`;
  const { text } = await replay('--apply');
  // The log of a tenant without rows is gone, so the replay does not find its three entries. One erasure still waits.
  expect(text).toMatch(/^4 entries that the database does not know\n$/m);
  expect(text).toContain('1  message.content_erased');
  expect(text).not.toContain('Done:');
  expect(await state()).toMatchObject({
    ...REPLAYED,
    tenants: ['active', 'active', 'suspended billing', 'absent', 'absent'],
  });
});

test('a replay erases the content of a message once the message is no longer waiting', async () => {
  await restored`
    delete from live_messages l using messages m where m.seq = l.seq and m.id = ${ids['erasedWhileLive'] ?? ''}`;
  expect((await replay('--apply')).text).toContain('1  contents of messages erased');
  expect(await state()).toMatchObject({ contents: [false, false, false, true] });
  expect((await replay('--apply')).text).toMatch(/^3 entries that the database does not know\n$/m);
});

test('a truncated audit line is reported and makes the replay exit with code 1', async () => {
  await writeFile(file, '{"level":"info","component":"api","event":"audit","audit":{"v":1,"id":"0b');
  const { code, text } = await replay('--apply');
  expect(code).toBe(1);
  expect(text).toContain('1 audit lines CANNOT BE READ');
});
