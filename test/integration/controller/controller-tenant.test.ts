import { randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  accountSecretBinding,
  webhookCertificateBinding,
  webhookKeyBinding,
  webhookSecretBinding,
} from '#core/domain/storage/binding.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import { KeyringError } from '#core/platform/vault/keyring.ts';
import type { GoneResource, OwnedSlug } from '#core/store/tenants/managed-tenants.ts';
import { projectRoot } from '#test/support/command.ts';
import { acceptBatch, acceptRow, seedAccount } from '#test/support/seed.ts';
import { FILLED_TABLES, fillTenant, leftoversOf } from '#test/support/tenant-leftovers.ts';
import { ISSUER, setupTenantReconciler, type TenantReconciling } from '#test/support/tenant-reconciler.ts';

let s: TenantReconciling;

beforeAll(async () => {
  s = await setupTenantReconciler();
  s.putPlan('free');
  s.putPlan('growth', BUILT_IN_PLANS.growth);
});
afterAll(() => s[Symbol.asyncDispose]());

function resourceOf(key: string): GoneResource {
  const tenant = s.tenants.get(key);
  if (tenant === undefined) throw new Error('no tenant');
  const { uid, creationTimestamp: createdAt } = tenant.metadata;
  return { slug: key.split('/')[1] ?? '', uid, ref: key, createdAt };
}

type Row = {
  id: string;
  name: string;
  plan: string;
  status: string;
  suspension_reason: string | null;
  owner_uid: string | null;
  owner_ref: string | null;
  limits: Record<string, number>;
  generation: number;
};

async function row(key: string): Promise<Row | undefined> {
  const slug = s.tenants.get(key)?.spec.slug ?? key.split('/')[1] ?? '';
  const [found] = await s.admin<Row[]>`
    select t.id, t.name, t.plan, t.status, t.suspension_reason, t.owner_uid, t.owner_ref, l.limits, l.generation
    from tenants t left join tenant_limits l on l.tenant_id = t.id where t.slug = ${slug}`;
  return found;
}

const condition = (key: string, type: string) =>
  s.tenants.get(key)?.status?.conditions?.find((one) => one.type === type);

async function keyExists(id: string): Promise<boolean> {
  return (await s.vault.request('GET', `${s.vault.mount}/keys/despatch-${id}`)).status === 200;
}

async function xminOf(id: string): Promise<string[]> {
  const rows = await s.admin<{ x: string }[]>`
    select xmin || ' ' || xmax as x from tenants where id = ${id} union all
    select xmin || ' ' || xmax from tenant_limits where tenant_id = ${id} union all
    select xmin || ' ' || xmax from members where tenant_id = ${id} order by 1`;
  return rows.map(({ x }) => x);
}

describe('a declared tenant', () => {
  test('is applied with plan, limits, owners, key and status', async () => {
    const key = s.putTenant({
      displayName: 'Acme Ltd',
      planRef: { name: 'growth' },
      limits: { messagesPerDay: 123 },
      owners: [{ email: 'Ann@example.org' }, { subject: 'bob' }],
    });
    const writes = await s.reconcile(key);
    const stored = await row(key);
    expect(stored).toMatchObject({
      id: s.tenants.get(key)?.metadata.uid,
      name: 'Acme Ltd',
      plan: 'growth',
      status: 'active',
      owner_ref: key,
      limits: { ...BUILT_IN_PLANS.growth, messagesPerDay: 123 },
    });
    expect(writes).toEqual(['finalizer+', `notice ${stored?.id}`, 'event Created', 'status']);
    expect(await keyExists(stored?.id ?? '')).toBe(true);
    const people = await s.admin`
      select u.email, u.subject, u.issuer, m.role from members m join users u on u.id = m.user_id
      where m.tenant_id = ${stored?.id ?? ''} order by u.email`;
    expect(people).toEqual([
      { email: 'Ann@example.org', subject: null, issuer: ISSUER, role: 'owner' },
      { email: null, subject: 'bob', issuer: ISSUER, role: 'owner' },
    ]);
    expect(s.tenants.get(key)?.status).toMatchObject({
      tenantId: stored?.id,
      slug: key.split('/')[1],
      observedGeneration: 1,
      plan: { name: 'growth', generation: 1 },
      effectiveLimits: { messagesPerDay: 123 },
      encryption: { keyName: `despatch-${stored?.id}`, latestVersion: 1 },
    });
    expect(s.tenants.get(key)?.status?.conditions?.map(({ type, status }) => `${type} ${status}`)).toEqual([
      'Ready True',
      'PlanResolved True',
      'Applied True',
      'KeyProvisioned True',
      'Suspended False',
    ]);
  });

  test('that is unchanged causes no write to the cluster, the database or Vault', async () => {
    const key = s.putTenant({ owners: [{ subject: 'carol' }] });
    await s.reconcile(key);
    const id = (await row(key))?.id ?? '';
    const before = await xminOf(id);
    expect(await s.reconcile(key)).toEqual([]);
    // `xmin` is unchanged, so not even a row lock was written.
    expect(await xminOf(id)).toEqual(before);
    const { body } = await s.vault.request('GET', `${s.vault.mount}/keys/despatch-${id}`);
    expect(body).toMatchObject({ data: { latest_version: 1 } });
  });

  test('accepts messages once it is applied, and rejects them once its suspension is committed', async () => {
    const key = s.putTenant();
    await s.reconcile(key);
    const id = (await row(key))?.id ?? '';
    const tenant = { tenantId: id, slug: '', apiKeyId: randomUUID() };
    expect((await acceptBatch(s.api, [acceptRow(tenant)]))[0]?.verdict).toBe('accepted');

    s.putTenant({ state: 'Suspended', suspendReason: 'billing' }, { key });
    expect(await s.reconcile(key)).toEqual([`notice ${id}`, 'status']);
    expect(await row(key)).toMatchObject({ status: 'suspended', suspension_reason: 'billing' });
    expect(condition(key, 'Suspended')).toMatchObject({ status: 'True', reason: 'SuspendedBySpec' });
    expect(condition(key, 'Ready')).toMatchObject({ status: 'True' });
    expect((await acceptBatch(s.api, [acceptRow(tenant)]))[0]?.verdict).toBe('suspended');

    s.putTenant({}, { key });
    await s.reconcile(key);
    expect((await acceptBatch(s.api, [acceptRow(tenant)]))[0]?.verdict).toBe('accepted');
  });

  test('gets the new limits when its plan changes, and those of another plan when it moves', async () => {
    s.putPlan('own', { messagesPerDay: 5 });
    const key = s.putTenant({ planRef: { name: 'own' } });
    await s.reconcile(key);
    s.putPlan('own', { messagesPerDay: 6 });
    await s.reconcile(key);
    expect(await row(key)).toMatchObject({ limits: { messagesPerDay: 6 }, generation: 2 });
    expect(s.tenants.get(key)?.status?.plan).toEqual({ name: 'own', generation: 2 });
    s.putTenant({ planRef: { name: 'growth' } }, { key });
    await s.reconcile(key);
    expect(await row(key)).toMatchObject({ plan: 'growth', limits: BUILT_IN_PLANS.growth });
  });

  test('whose plan was deleted keeps its limits and can still be suspended', async () => {
    s.putPlan('short-lived', { messagesPerDay: 5 });
    const key = s.putTenant({ planRef: { name: 'short-lived' } });
    await s.reconcile(key);
    s.plans.delete('short-lived');
    s.putTenant({ planRef: { name: 'short-lived' }, state: 'Suspended' }, { key });
    await s.reconcile(key);
    expect(await row(key)).toMatchObject({ status: 'suspended', limits: { messagesPerDay: 5 } });
    expect(condition(key, 'PlanResolved')).toMatchObject({ status: 'False', reason: 'PlanNotFound' });
    expect(condition(key, 'Ready')).toMatchObject({ status: 'False', reason: 'PlanNotFound' });
    expect(condition(key, 'Applied')).toMatchObject({ status: 'True' });
  });

  test('whose plan never existed is not created', async () => {
    const key = s.putTenant({ planRef: { name: 'nowhere' } });
    await s.reconcile(key);
    expect(await row(key)).toBeUndefined();
    expect(condition(key, 'Ready')).toMatchObject({ status: 'False', reason: 'PlanNotFound' });
    expect(condition(key, 'KeyProvisioned')).toMatchObject({ status: 'Unknown' });
  });

  test('whose rows were changed by hand is corrected, and the drift is reported', async () => {
    const key = s.putTenant({ planRef: { name: 'growth' } });
    await s.reconcile(key);
    const id = (await row(key))?.id ?? '';
    await s.admin`update tenant_limits set limits = limits || '{"messagesPerDay": 999999}' where tenant_id = ${id}`;
    await s.admin`update tenants set status = 'suspended', suspension_reason = 'abuse' where id = ${id}`;
    expect(await s.reconcile(key)).toEqual([`notice ${id}`, 'drift limits,suspension']);
    expect(await row(key)).toMatchObject({ status: 'active', limits: BUILT_IN_PLANS.growth });
  });

  test("keeps the API's changes to name and members until the resource changes them", async () => {
    const key = s.putTenant({ displayName: 'First', owners: [{ subject: 'dora' }] });
    await s.reconcile(key);
    const id = (await row(key))?.id ?? '';
    await s.admin`update tenants set name = 'Renamed' where id = ${id}`;
    await s.admin`delete from members where tenant_id = ${id}`;
    s.putTenant({ displayName: 'First', owners: [{ subject: 'dora' }, { subject: 'emil' }] }, { key });
    await s.reconcile(key);
    expect(await row(key)).toMatchObject({ name: 'Renamed' });
    const people = await s.admin`
      select u.subject from members m join users u on u.id = m.user_id where m.tenant_id = ${id}`;
    expect(people).toEqual([{ subject: 'emil' }]);
    s.putTenant({ displayName: 'Second', owners: [] }, { key });
    await s.reconcile(key);
    expect(await row(key)).toMatchObject({ name: 'Second' });
  });

  test('that is paused is not changed, not even when its resource is deleted', async () => {
    const key = s.putTenant();
    await s.reconcile(key);
    s.putTenant({ state: 'Suspended' }, { key });
    const tenant = s.tenants.get(key);
    if (tenant === undefined) throw new Error('no tenant');
    s.tenants.set(key, {
      ...tenant,
      metadata: { ...tenant.metadata, annotations: { 'despatch.dev/paused': 'true' } },
    });
    expect(await s.reconcile(key)).toEqual(['status']);
    expect(condition(key, 'Ready')).toMatchObject({ status: 'False', reason: 'Paused' });
    expect(condition(key, 'Applied')).toMatchObject({ status: 'True' });
    s.remove(key);
    expect(await s.reconcile(key)).toEqual([]);
    expect(await row(key)).toMatchObject({ status: 'active' });
  });
});

describe('ownership of a tenant', () => {
  test('a resource with the slug of an API tenant gets SlugConflict and changes nothing of it', async () => {
    const slug = `api-${randomUUID().slice(0, 8)}`;
    const id = randomUUID();
    await s.admin`select create_tenant(${id}, ${slug}, 'Theirs', 'free', '{}', null)`;
    const key = s.putTenant({ slug });
    await s.reconcile(key);
    expect(condition(key, 'Ready')).toMatchObject({ status: 'False', reason: 'SlugConflict' });
    expect(await row(key)).toMatchObject({ id, name: 'Theirs', owner_uid: null });
    s.remove(key);
    await s.reconcile(key);
    expect(s.tenants.has(key)).toBe(false);
    expect(await row(`x/${slug}`)).toMatchObject({ id, status: 'active' });
  });

  test('of two resources with one slug the first owns the tenant; the second cannot purge it', async () => {
    const slug = `shared-${randomUUID().slice(0, 8)}`;
    const first = s.putTenant({ slug });
    const second = s.putTenant({ slug, deletionPolicy: 'Purge' });
    await s.reconcile(first);
    const logged: unknown[] = [];
    const log = { ...silentLogger, info: (facts: unknown) => void logged.push(facts) };
    await s.reconcilerWith({})(second, AbortSignal.timeout(20_000), log);
    expect(logged).toEqual([{ slug, holder: first }]);
    // The status tells those who guess slugs nothing about the other's resource.
    expect(condition(second, 'Applied')).toMatchObject({
      reason: 'SlugConflict',
      message: `The slug ${slug} is taken`,
    });
    s.remove(second);
    await s.reconcile(second);
    expect(await row(first)).toMatchObject({ owner_ref: first, status: 'active' });
    expect(await keyExists((await row(first))?.id ?? '')).toBe(true);
  });

  test('a controller with a stale Tenant in its cache changes nothing', async () => {
    const key = s.putTenant({ planRef: { name: 'growth' } });
    const old = s.tenants.get(key);
    s.putTenant({ planRef: { name: 'growth' }, state: 'Suspended' }, { key });
    await s.reconcile(key);
    if (old === undefined) throw new Error('no tenant');
    const stale = s.reconcilerWith({ tenants: new Map([[key, old]]) });
    const writes = await s.reconcile(key, stale);
    expect(writes.filter((write) => write.startsWith('notice'))).toEqual([]);
    expect(await row(key)).toMatchObject({ status: 'suspended' });
  });

  test('after a restore of etcd, the documented statement lets lower generations apply', async () => {
    s.putPlan('restored', { messagesPerDay: 1 });
    const key = s.putTenant({ planRef: { name: 'restored' } });
    const [plan, tenant] = [s.plans.get('restored'), s.tenants.get(key)];
    s.putPlan('restored', { messagesPerDay: 2 });
    s.putTenant({ planRef: { name: 'restored' }, state: 'Suspended' }, { key });
    await s.reconcile(key);
    if (plan === undefined || tenant === undefined) throw new Error('nothing to restore');
    s.plans.set('restored', plan);
    s.tenants.set(key, tenant);
    await s.reconcile(key);
    expect(condition(key, 'Applied')).toMatchObject({ status: 'False', reason: 'Stale' });

    const document = readFileSync(join(projectRoot, 'deploy/docs/backup-and-restore.md'), 'utf8');
    const [, statement = ''] = /## A restored etcd[^]*?```sql\n([^]*?)```/.exec(document) ?? [];
    await s.admin.unsafe(`${statement.trim().slice(0, -1)} and owner_ref = '${key}'`);
    await s.reconcile(key);
    expect(condition(key, 'Applied')).toMatchObject({ status: 'True' });
    expect(await row(key)).toMatchObject({ status: 'active', limits: { messagesPerDay: 1 } });
  });

  test('a controller with a stale Plan in its cache changes nothing', async () => {
    s.putPlan('aging', { messagesPerDay: 1 });
    const old = s.plans.get('aging');
    const key = s.putTenant({ planRef: { name: 'aging' } });
    s.putPlan('aging', { messagesPerDay: 2 });
    await s.reconcile(key);
    if (old === undefined) throw new Error('no plan');
    await s.reconcile(key, s.reconcilerWith({ plans: new Map([['aging', old]]) }));
    expect(await row(key)).toMatchObject({ limits: { messagesPerDay: 2 } });
  });

  test('a controller that still caches a deleted resource does not reactivate its tenant', async () => {
    const key = s.putTenant();
    await s.reconcile(key);
    const old = s.tenants.get(key);
    s.remove(key);
    await s.reconcile(key);
    if (old === undefined) throw new Error('no tenant');
    await s.reconcile(key, s.reconcilerWith({ tenants: new Map([[key, old]]) }));
    expect(await row(key)).toMatchObject({ status: 'suspended', owner_uid: null });
  });

  /** Starts a pass that stops between its reads and its write, while other passes run. */
  function stoppedPass(key: string, before: 'find' | 'apply' | 'ensure' | 'retain') {
    const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const hold = async (): Promise<void> => {
      reached.resolve();
      await released.promise;
    };
    const { store, keys } = s;
    const pass = s.reconcilerWith({
      tenants: new Map([...s.tenants].filter(([one]) => one === key)),
      store: {
        ...store,
        ...(before === 'find' && { find: (slug) => hold().then(() => store.find(slug)) }),
        ...(before === 'apply' && { apply: (wanted) => hold().then(() => store.apply(wanted)) }),
        ...(before === 'retain' && { retain: (gone) => hold().then(() => store.retain(gone)) }),
      },
      ...(before === 'ensure' && {
        keys: { ...keys, ensure: (id: TenantId) => hold().then(() => keys.ensure(id)) },
      }),
    })(key, AbortSignal.timeout(20_000), s.log);
    return {
      reached: reached.promise,
      async goOn(): Promise<void> {
        released.resolve();
        await pass;
      },
    };
  }

  test.each([
    ['Retain', 'find'],
    ['Retain', 'retain'],
    ['Purge', 'find'],
  ] as const)(
    'a deletion with %s that stalls before %s does not touch what a re-created resource took over',
    async (deletionPolicy, step) => {
      const key = s.putTenant({ deletionPolicy });
      await s.reconcile(key);
      s.remove(key);
      const stopped = stoppedPass(key, step);
      await stopped.reached;
      await s.reconcile(key);
      // Within the same second, so that the creation times do not differ.
      s.putTenant({}, { key, uid: randomUUID() });
      await s.reconcile(key);
      await stopped.goOn();
      const uid = s.tenants.get(key)?.metadata.uid;
      expect(await row(key)).toMatchObject({ status: 'active', owner_uid: uid });
      // The new resource still controls the tenant.
      s.putTenant({ state: 'Suspended' }, { key });
      await s.reconcile(key);
      expect(await row(key)).toMatchObject({ status: 'suspended', owner_uid: uid });
    },
  );

  test.each(['apply', 'ensure'] as const)(
    'a pass that stalls before %s restores neither a purged tenant nor its key',
    async (step) => {
      const key = s.putTenant({ deletionPolicy: 'Purge' });
      const id = s.tenants.get(key)?.metadata.uid ?? '';
      await s.reconcile(key);
      if (step === 'apply') s.putTenant({ deletionPolicy: 'Purge', displayName: 'Other' }, { key });
      const stopped = stoppedPass(key, step);
      await stopped.reached;
      s.remove(key);
      await s.reconcile(key);
      expect(s.tenants.has(key)).toBe(false);
      await stopped.goOn();
      expect(await s.admin`select from tenants where id = ${id}`).toHaveLength(0);
      expect(await keyExists(id)).toBe(false);
    },
  );

  test('a pass that stalls before first applying a resource does not apply it after deletion', async () => {
    const key = s.putTenant();
    await s.reconcile(key);
    s.remove(key);
    await s.reconcile(key);
    s.putTenant({}, { key, uid: randomUUID(), createdAt: '2026-03-01T00:00:00Z' });
    const stopped = stoppedPass(key, 'apply');
    await stopped.reached;
    s.remove(key);
    await s.reconcile(key);
    await stopped.goOn();
    expect(await row(key)).toMatchObject({ status: 'suspended', owner_uid: null });
  });

  test('a resource re-created while the controller was down takes over its tenant', async () => {
    const key = s.putTenant({ planRef: { name: 'growth' } });
    await s.reconcile(key);
    const id = (await row(key))?.id;
    s.putTenant({ planRef: { name: 'free' } }, { key, uid: randomUUID(), createdAt: '2026-01-01T00:00:00Z' });
    await s.reconcile(key);
    expect(await row(key)).toMatchObject({ id, plan: 'free', owner_uid: s.tenants.get(key)?.metadata.uid });
  });
});

describe('deletion with Retain', () => {
  test('suspends the tenant and keeps rows and key; a new resource of that name takes it over', async () => {
    const key = s.putTenant({ planRef: { name: 'growth' } });
    await s.reconcile(key);
    const id = (await row(key))?.id ?? '';
    const binding = accountSecretBinding(id as never, randomUUID());
    const ciphertext = await s.encrypter.encrypt(binding, Buffer.from('kept'));
    s.remove(key);
    expect(await s.reconcile(key)).toEqual([`notice ${id}`, 'event Retained', 'finalizer-']);
    expect(s.tenants.has(key)).toBe(false);
    expect(await row(key)).toMatchObject({
      status: 'suspended',
      suspension_reason: 'manual',
      owner_uid: null,
      owner_ref: key,
    });
    const [shown] = await s.admin`select owner_ref from find_tenant(${id}, null)`;
    expect(shown).toEqual({ owner_ref: null });

    s.putTenant(
      { planRef: { name: 'growth' } },
      { key, uid: randomUUID(), createdAt: '2026-03-01T00:00:00Z' },
    );
    await s.reconcile(key);
    expect(await row(key)).toMatchObject({ id, status: 'active', limits: BUILT_IN_PLANS.growth });
    expect(Buffer.from(await s.decrypter.decrypt(binding, ciphertext)).toString()).toBe('kept');
  });

  test("with a finalizer of someone else's, the rest of the resource no longer says that the tenant is Ready", async () => {
    const key = s.putTenant();
    await s.reconcile(key);
    const tenant = s.tenants.get(key);
    if (tenant === undefined) throw new Error('no tenant');
    const finalizers = ['backup.example/finalizer', ...(tenant.metadata.finalizers ?? [])];
    s.tenants.set(key, { ...tenant, metadata: { ...tenant.metadata, finalizers } });
    s.remove(key);
    expect((await s.reconcile(key)).slice(1)).toEqual(['event Retained', 'finalizer-', 'status']);
    expect(await row(key)).toMatchObject({ status: 'suspended', owner_uid: null });
    const { metadata, status } = s.tenants.get(key) ?? {};
    expect(metadata?.finalizers).toEqual(['backup.example/finalizer']);
    expect(status?.conditions?.map(({ type, status, reason }) => [type, status, reason])).toEqual([
      ['Ready', 'False', 'Deleted'],
    ]);
    expect(await s.reconcile(key)).toEqual([]);
  });

  test('keeps the reason of a tenant that is already suspended', async () => {
    const key = s.putTenant({ state: 'Suspended', suspendReason: 'abuse' });
    await s.reconcile(key);
    s.remove(key);
    await s.reconcile(key);
    expect(await row(key)).toMatchObject({ status: 'suspended', suspension_reason: 'abuse' });
  });

  describe('of a tenant that a platform admin has suspended since', () => {
    const admin = randomUUID();
    const suspend = (id: string, why: string | null) =>
      s.api.begin(async (tx) => {
        await tx`select set_config('app.tenant', ${id}, true)`;
        await tx`select set_suspension(${id}, ${why}, ${admin})`;
      });
    /** A new resource of the name of one that was deleted, and its tenant. */
    async function redeclared(spec: object): Promise<{ readonly key: string; readonly id: string }> {
      const key = s.putTenant();
      await s.reconcile(key);
      const id = (await row(key))?.id ?? '';
      s.remove(key);
      await s.reconcile(key);
      await suspend(id, 'abuse');
      s.putTenant(spec, { key, uid: randomUUID(), createdAt: '2026-03-01T00:00:00Z' });
      return { key, id };
    }

    test('a new resource is not Ready until the tenant is resumed', async () => {
      const { key, id } = await redeclared({ planRef: { name: 'growth' } });
      expect(await s.reconcile(key)).toEqual(['finalizer+', 'status']);
      expect(await row(key)).toMatchObject({ status: 'suspended', suspension_reason: 'abuse', plan: 'free' });
      expect(condition(key, 'Ready')).toMatchObject({
        status: 'False',
        reason: 'SuspendedByAdmin',
        message: expect.stringContaining('(abuse)'),
      });
      expect(await s.reconcile(key)).toEqual([]);
      await suspend(id, null);
      await s.reconcile(key);
      expect(await row(key)).toMatchObject({ id, status: 'active', plan: 'growth' });
      expect(condition(key, 'Ready')).toMatchObject({ status: 'True' });
    });

    test('a new resource that is suspended too does not take it over before that', async () => {
      const { key, id } = await redeclared({ state: 'Suspended', suspendReason: 'billing' });
      await s.reconcile(key);
      expect(await row(key)).toMatchObject({ id, status: 'suspended', suspension_reason: 'abuse' });
      expect(condition(key, 'Ready')).toMatchObject({ reason: 'SuspendedByAdmin' });
      await suspend(id, null);
      await s.reconcile(key);
      expect(await row(key)).toMatchObject({ id, status: 'suspended', suspension_reason: 'billing' });
    });

    test('the database refuses a pass that read the tenant before', async () => {
      const { key, id } = await redeclared({});
      const find = async (slug: string) => {
        const stored = await s.store.find(slug);
        return stored && { ...stored, suspendedBy: stored.ownerRef };
      };
      await s.reconcile(key, s.reconcilerWith({ store: { ...s.store, find } }));
      expect(await row(key)).toMatchObject({ id, status: 'suspended', suspension_reason: 'abuse' });
      expect(condition(key, 'Ready')).toMatchObject({ reason: 'Stale' });
    });
  });

  test('does not give the tenant to a resource of another name', async () => {
    const slug = `kept-${randomUUID().slice(0, 8)}`;
    const key = s.putTenant({ slug });
    await s.reconcile(key);
    s.remove(key);
    await s.reconcile(key);
    const other = s.putTenant({ slug });
    await s.reconcile(other);
    expect(condition(other, 'Ready')).toMatchObject({ reason: 'SlugConflict' });
  });

  test('applies, instead of Purge, to the former tenant of a resource that was never applied', async () => {
    const key = s.putTenant();
    await s.reconcile(key);
    s.putTenant({ deletionPolicy: 'Purge' }, { key, uid: randomUUID(), createdAt: '2026-03-01T00:00:00Z' });
    const tenant = s.tenants.get(key);
    if (tenant === undefined) throw new Error('no tenant');
    s.tenants.set(key, {
      ...tenant,
      metadata: { ...tenant.metadata, finalizers: ['tenant.despatch.dev/finalizer'] },
    });
    s.remove(key);
    await s.reconcile(key);
    expect(await row(key)).toMatchObject({ status: 'suspended', owner_uid: null });
  });
});

describe('deletion with Purge', () => {
  const leftovers = (id: string): Promise<Record<string, number>> => leftoversOf(s.admin, id);

  async function full(): Promise<{
    key: string;
    id: string;
    tenant: { tenantId: string; slug: string; apiKeyId: string };
  }> {
    const key = s.putTenant({ deletionPolicy: 'Purge', owners: [{ email: `${randomUUID()}@example.org` }] });
    await s.reconcile(key);
    const id = (await row(key))?.id ?? '';
    return { key, id, tenant: await fillTenant(s.admin, s.api, id) };
  }

  test('leaves no row and no key', async () => {
    const { key, id } = await full();
    expect(Object.keys(await leftovers(id))).toEqual(expect.arrayContaining(FILLED_TABLES));
    s.remove(key);
    const writes = await s.reconcile(key);
    expect(writes).toEqual([`notice ${id}`, 'event Purging', `notice ${id}`, 'event Purged', 'finalizer-']);
    expect(await leftovers(id)).toEqual({});
    expect(await keyExists(id)).toBe(false);
    expect(s.tenants.has(key)).toBe(false);
  });

  test('deletes users who were only named as owners, not those who signed in or own others', async () => {
    const named = Array.from({ length: 5 }, () => randomUUID());
    const [mailed = '', silent = '', come = '', coming = '', elsewhere = ''] = named;
    const email = `${mailed}@example.org`;
    const owners = [{ email }, ...[silent, come, coming, elsewhere].map((subject) => ({ subject }))];
    const key = s.putTenant({ deletionPolicy: 'Purge', owners });
    const other = s.putTenant({ owners: [{ subject: elsewhere }] });
    await s.reconcile(key);
    await s.reconcile(other);
    await s.api`select sign_user_in(${ISSUER}, ${come}, null, false, null)`;
    const people = async () =>
      (
        await s.admin<{ name: string }[]>`
          select coalesce(subject, email) as name from users
          where subject = any (${named}) or email = ${email}`
      ).map(({ name }) => name);
    expect(await people()).toHaveLength(5);
    s.remove(key);
    await s.api.begin(async (tx) => {
      await tx`select sign_user_in(${ISSUER}, ${coming}, null, false, null)`;
      await s.reconcile(key);
    });
    expect((await people()).toSorted()).toEqual([come, coming, elsewhere].toSorted());
    expect((await row(other))?.status).toBe('active');
  });

  test('leaves the rows and the key of another tenant unchanged', async () => {
    const [gone, stays] = [await full(), await full()];
    const before = await leftovers(stays.id);
    s.remove(gone.key);
    await s.reconcile(gone.key);
    expect(await leftovers(stays.id)).toEqual(before);
    expect(await keyExists(stays.id)).toBe(true);
  });

  test('waits for a claimed message, and rejects new messages meanwhile', async () => {
    const { key, id, tenant } = await full();
    const [account] = await s.admin<
      { id: string }[]
    >`select id from provider_accounts where tenant_id = ${id}`;
    const claimed = await s.worker`
      select seq from claim_due(json_build_array(json_build_object('tenant_id', ${id}::text,
        'account_id', ${account?.id ?? ''}::text, 'most', 1, 'ahead_ms', 60000)), 'w', 60000, 1000000)`;
    expect(claimed).toHaveLength(1);
    s.remove(key);
    await s.reconcile(key);
    expect(condition(key, 'Ready')).toMatchObject({ status: 'False', reason: 'Purging' });
    expect((await leftovers(id))['messages']).toBe(1);
    expect((await acceptBatch(s.api, [acceptRow(tenant)]))[0]?.verdict).toBe('suspended');
    await s.admin`update live_messages set lease_until = now() - interval '1 second' where tenant_id = ${id}`;
    await s.reconcile(key);
    expect(await leftovers(id)).toEqual({});
  });

  test.each(['beginPurge', 'purgeSome', 'endPurge', 'destroy'] as const)(
    'is completed by the next pass if the first one fails after %s',
    async (step) => {
      const { key, id } = await full();
      s.remove(key);
      const cut = async (work: Promise<unknown>): Promise<never> => {
        await work;
        throw new Error('cut off');
      };
      const { keys, store } = s;
      const broken = {
        keys: step === 'destroy' ? { ...keys, destroy: (id: TenantId) => cut(keys.destroy(id)) } : keys,
        store: {
          ...store,
          ...(step === 'beginPurge' && { beginPurge: (gone: GoneResource) => cut(store.beginPurge(gone)) }),
          ...(step === 'purgeSome' && { purgeSome: (owned: OwnedSlug) => cut(store.purgeSome(owned, 10)) }),
          ...(step === 'endPurge' && { endPurge: (owned: OwnedSlug) => cut(store.endPurge(owned)) }),
        },
      };
      await expect(s.reconcile(key, s.reconcilerWith(broken))).rejects.toThrow('cut off');
      expect(s.tenants.has(key)).toBe(true);
      await s.reconcile(key);
      expect(await leftovers(id)).toEqual({});
      expect(await keyExists(id)).toBe(false);
      expect(s.tenants.has(key)).toBe(false);
    },
  );

  test('that has begun continues even if the policy changes to Retain', async () => {
    const { key, id } = await full();
    s.remove(key);
    await s.store.beginPurge(resourceOf(key));
    const tenant = s.tenants.get(key);
    if (tenant === undefined) throw new Error('no tenant');
    s.tenants.set(key, { ...tenant, spec: { ...tenant.spec, deletionPolicy: 'Retain' } });
    await s.reconcile(key);
    expect(await leftovers(id)).toEqual({});
  });

  test('of a force-removed resource is completed by its successor, which gets a new tenant', async () => {
    const { key, id } = await full();
    await s.store.beginPurge(resourceOf(key));
    s.putTenant({}, { key, uid: randomUUID(), createdAt: '2026-03-01T00:00:00Z' });
    await s.reconcile(key);
    expect(condition(key, 'Applied')).toMatchObject({ status: 'False', reason: 'Purging' });
    await s.reconcile(key);
    expect(await leftovers(id)).toEqual({});
    expect(await row(key)).toMatchObject({ id: s.tenants.get(key)?.metadata.uid, status: 'active' });
  });
});

describe('the Vault key of a tenant', () => {
  test('is rotated after its period, and every credential and webhook secret is re-encrypted', async () => {
    const key = s.putTenant({ encryption: { keyRotationPeriodDays: 30 } });
    await s.reconcile(key);
    const id = (await row(key))?.id ?? '';
    const accounts = await Promise.all(Array.from({ length: 45 }, () => seedAccount(s.admin, id)));
    for (const accountId of accounts) {
      const ciphertext = await s.encrypter.encrypt(
        accountSecretBinding(id as never, accountId),
        Buffer.from(accountId),
      );
      await s.admin`update provider_accounts set ciphertext = ${ciphertext}, previous_ciphertext = ${ciphertext} where id = ${accountId}`;
    }
    const [endpointId, keyId] = [randomUUID(), randomUUID()];
    const bindings = [
      webhookSecretBinding(id as never, endpointId),
      webhookSecretBinding(id as never, endpointId),
      webhookCertificateBinding(id as never, endpointId),
      webhookKeyBinding(id as never, keyId),
    ];
    const [secret = '', former = '', certificate = '', signing = ''] = await Promise.all(
      bindings.map((binding, i) => s.encrypter.encrypt(binding, Buffer.from(`webhook ${i}`))),
    );
    await s.admin`
      insert into webhook_endpoints (id, tenant_id, url, event_types, matched_to, secret, previous_secret, client_certificate)
      values (${endpointId}, ${id}, 'https://hooks.test/', '{*}', 0, ${secret}, ${former}, ${certificate})`;
    await s.admin`
      insert into webhook_keys (id, tenant_id, public_key, ciphertext) values (${keyId}, ${id}, 'x', ${signing})`;
    s.setClock(() => new Date(Date.now() + 31 * 86_400_000));
    try {
      expect(await s.reconcile(key)).toEqual(['event KeyRotated', 'status']);
    } finally {
      s.setClock(() => new Date());
    }
    expect(s.tenants.get(key)?.status?.encryption).toMatchObject({ latestVersion: 2 });
    const rows = await s.admin<
      { id: string; ciphertext: string; previous_ciphertext: string; version: number }[]
    >`
      select id, ciphertext, previous_ciphertext, version from provider_accounts where tenant_id = ${id}`;
    expect(rows).toHaveLength(45);
    for (const provider of rows) {
      expect(provider.ciphertext).toMatch(/^vault:v2:/);
      expect(provider.previous_ciphertext).toMatch(/^vault:v2:/);
      expect(provider.version).toBe(1);
    }
    const opened = await s.decrypter.decrypt(
      accountSecretBinding(id as never, rows[0]?.id ?? ''),
      rows[0]?.ciphertext ?? '',
    );
    expect(Buffer.from(opened).toString()).toBe(rows[0]?.id);
    const [webhook] = await s.admin<{ all: string[]; version: number }[]>`
      select array[w.secret, w.previous_secret, w.client_certificate, k.ciphertext] as all, w.version
      from webhook_endpoints w join webhook_keys k on k.id = ${keyId} where w.id = ${endpointId}`;
    expect(webhook?.version).toBe(1);
    for (const [i, binding] of bindings.entries()) {
      const moved = webhook?.all[i] ?? '';
      expect(moved).toMatch(/^vault:v2:/);
      expect(Buffer.from(await s.decrypter.decrypt(binding, moved)).toString()).toBe(`webhook ${i}`);
    }
    expect(await s.reconcile(key)).toEqual([]);
  });

  test('is never rotated with a period of 0', async () => {
    const key = s.putTenant({ encryption: { keyRotationPeriodDays: 0 } });
    await s.reconcile(key);
    s.setClock(() => new Date('2099-01-01T00:00:00Z'));
    try {
      expect(await s.reconcile(key)).toEqual([]);
    } finally {
      s.setClock(() => new Date());
    }
  });

  test('with more damaged credentials than a batch, the intact ones are still re-encrypted', async () => {
    const key = s.putTenant();
    await s.reconcile(key);
    const id = (await row(key))?.id ?? '';
    const accounts = await Promise.all(Array.from({ length: 50 }, () => seedAccount(s.admin, id)));
    await s.admin`update provider_accounts set ciphertext = 'vault:v1:AAAA' where tenant_id = ${id}`;
    // The good ones come last in every order.
    const good = accounts.toSorted().slice(-2);
    for (const one of good) {
      const [current, previous] = await Promise.all(
        ['x', 'y'].map((text) =>
          s.encrypter.encrypt(accountSecretBinding(id as never, one), Buffer.from(text)),
        ),
      );
      await s.admin`
        update provider_accounts set ciphertext = ${current ?? ''}, previous_ciphertext = ${previous ?? ''} where id = ${one}`;
    }
    await s.keys.rotate(id as never);
    expect(await s.reconcile(key)).toContain('warning RewrapFailed');
    const moved = await s.admin`
      select from provider_accounts where tenant_id = ${id} and ciphertext like 'vault:v2:%' and previous_ciphertext like 'vault:v2:%'`;
    expect(moved).toHaveLength(good.length);
    expect(condition(key, 'Ready')).toMatchObject({ status: 'True' });
  });

  test('with a damaged credential, RewrapFailed is reported and the intact one is re-encrypted', async () => {
    const key = s.putTenant();
    await s.reconcile(key);
    const id = (await row(key))?.id ?? '';
    const [good, bad] = [await seedAccount(s.admin, id), await seedAccount(s.admin, id)];
    const ciphertext = await s.encrypter.encrypt(accountSecretBinding(id as never, good), Buffer.from('x'));
    await s.admin`update provider_accounts set ciphertext = ${ciphertext} where id = ${good}`;
    await s.admin`update provider_accounts set ciphertext = 'vault:v1:AAAA' where id = ${bad}`;
    await s.keys.rotate(id as never);
    expect(await s.reconcile(key)).toContain('warning RewrapFailed');
    const [moved] = await s.admin`select ciphertext from provider_accounts where id = ${good}`;
    expect(moved?.['ciphertext']).toMatch(/^vault:v2:/);
    expect(condition(key, 'Ready')).toMatchObject({ status: 'True' });
  });

  test('is created again if it was deleted by hand, with a KeyMissing warning', async () => {
    const key = s.putTenant();
    await s.reconcile(key);
    const id = (await row(key))?.id ?? '';
    await s.keys.destroy(id as never);
    expect(await s.reconcile(key)).toContain('warning KeyMissing');
    expect(await keyExists(id)).toBe(true);
  });

  test('does not block a suspension while Vault is unavailable, and the next pass retries', async () => {
    const away = () => Promise.reject(new KeyringError('unavailable', 'no answer'));
    const key = s.putTenant();
    await s.reconcile(key);
    s.putTenant({ state: 'Suspended' }, { key });
    const reconciler = s.reconcilerWith({ keys: { ...s.keys, ensure: away } });
    await expect(s.reconcile(key, reconciler)).rejects.toThrow('no answer');
    expect(await row(key)).toMatchObject({ status: 'suspended' });
    expect(condition(key, 'KeyProvisioned')).toMatchObject({ status: 'False', reason: 'VaultUnavailable' });
    expect(condition(key, 'Applied')).toMatchObject({ status: 'True' });
    expect(s.tenants.get(key)?.status?.encryption).toMatchObject({ latestVersion: 1 });
    await s.reconcile(key);
    expect(condition(key, 'Ready')).toMatchObject({ status: 'True' });
  });
});

test('a database failure sets DatabaseUnavailable without SQL text, and the next pass recovers', async () => {
  const key = s.putTenant();
  const reconciler = s.reconcilerWith({
    store: { ...s.store, find: () => Promise.reject(new Error('relation "secret" does not exist')) },
  });
  await expect(s.reconcile(key, reconciler)).rejects.toThrow('relation');
  expect(condition(key, 'Ready')).toMatchObject({ status: 'False', reason: 'DatabaseUnavailable' });
  expect(JSON.stringify(s.tenants.get(key)?.status)).not.toContain('relation');
  await s.reconcile(key);
  expect(condition(key, 'Ready')).toMatchObject({ status: 'True' });
});

describe('a tenant that is Ready', () => {
  const databaseSays = (failure: Error) =>
    s.reconcilerWith({ store: { ...s.store, find: () => Promise.reject(failure) } });
  const databaseAway = () => databaseSays(new DependencyError('postgres', 'deadline', 'no answer'));
  const vaultSays = (code: 'unavailable' | 'refused') =>
    s.reconcilerWith({
      keys: { ...s.keys, ensure: () => Promise.reject(new KeyringError(code, 'no answer')) },
    });

  test.each([
    ['the database', databaseAway],
    ['Vault', () => vaultSays('unavailable')],
  ])('stays Ready while %s does not answer, and waits for the next resync', async (_who, away) => {
    const key = s.putTenant();
    await s.reconcile(key);
    const [before, pass] = [s.tenants.get(key)?.status, away()];
    expect(await s.reconcile(key, pass)).toEqual([]);
    expect(await pass(key, AbortSignal.timeout(20_000), s.log)).toEqual({ requeueAfterMs: 300_000 });
    expect(s.tenants.get(key)?.status).toEqual(before);
  });

  test('is no longer Ready when Vault refuses a request', async () => {
    const key = s.putTenant();
    await s.reconcile(key);
    await expect(s.reconcile(key, vaultSays('refused'))).rejects.toThrow('no answer');
    expect(condition(key, 'Ready')).toMatchObject({ status: 'False', reason: 'VaultRefused' });
  });

  test('is no longer Ready when the database denies permission', async () => {
    const key = s.putTenant();
    await s.reconcile(key);
    const refused = Object.assign(new Error('permission denied'), { name: 'PostgresError', code: '42501' });
    await expect(s.reconcile(key, databaseSays(refused))).rejects.toThrow('permission denied');
    expect(condition(key, 'Ready')).toMatchObject({ status: 'False', reason: 'DatabaseUnavailable' });
    await s.reconcile(key);
    expect(condition(key, 'Ready')).toMatchObject({ status: 'True' });
  });

  test('is no longer Ready when drift in its row cannot be corrected', async () => {
    const key = s.putTenant();
    await s.reconcile(key);
    await s.admin`update tenants set status = 'suspended', suspension_reason = 'abuse' where id = ${(await row(key))?.id ?? ''}`;
    const pass = s.reconcilerWith({
      store: { ...s.store, apply: () => Promise.reject(new Error('no answer')) },
    });
    await expect(s.reconcile(key, pass)).rejects.toThrow('no answer');
    expect(condition(key, 'Ready')).toMatchObject({ status: 'False', reason: 'DatabaseUnavailable' });
  });

  test.each(['its resource', 'its plan'])(
    'is not Ready after a change of %s while the database is down, and shows the applied values',
    async (what) => {
      const plan = `p-${randomUUID().slice(0, 8)}`;
      s.putPlan(plan, { messagesPerDay: 5 });
      const key = s.putTenant({ planRef: { name: plan } });
      await s.reconcile(key);
      const before = s.tenants.get(key)?.status;
      if (what === 'its plan') s.putPlan(plan, { messagesPerDay: 6 });
      else s.putTenant({ planRef: { name: plan }, state: 'Suspended' }, { key });
      const generation = what === 'its plan' ? 1 : 2;
      await expect(s.reconcile(key, databaseAway())).rejects.toThrow('no answer');
      expect(s.tenants.get(key)?.status).toMatchObject({
        observedGeneration: generation,
        tenantId: before?.tenantId,
        plan: { name: plan, generation: 1 },
        effectiveLimits: { messagesPerDay: 5 },
        encryption: before?.encryption,
      });
      const said = s.tenants
        .get(key)
        ?.status?.conditions?.map(
          ({ type, status, observedGeneration }) => `${type} ${status} ${observedGeneration}`,
        );
      expect(said).toEqual([
        `Ready False ${generation}`,
        `PlanResolved True ${generation}`,
        `Applied False ${generation}`,
        'KeyProvisioned True 1',
        'Suspended False 1',
      ]);
      await s.reconcile(key);
      expect(condition(key, 'Ready')).toMatchObject({ status: 'True', observedGeneration: generation });
    },
  );

  test('shows DatabaseUnavailable when it is deleted while the database is down', async () => {
    const key = s.putTenant();
    await s.reconcile(key);
    s.remove(key);
    await expect(s.reconcile(key, databaseAway())).rejects.toThrow('no answer');
    expect(condition(key, 'Ready')).toMatchObject({ status: 'False', reason: 'DatabaseUnavailable' });
    await s.reconcile(key);
    expect(s.tenants.has(key)).toBe(false);
  });
});
