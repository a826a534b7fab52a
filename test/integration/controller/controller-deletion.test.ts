import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { newId, type TenantId } from '#core/domain/storage/ids.ts';
import { KeyringError } from '#core/platform/vault/keyring.ts';
import type { GoneResource, OwnedSlug } from '#core/store/tenants/managed-tenants.ts';
import { beginDeletion, createTenant } from '#core/store/tenants/tenants.ts';
import { withTenant } from '#core/store/query/tenant-scope.ts';
import { backdatePurge } from '#test/support/backdate-purge.ts';
import { acceptBatch, acceptRow } from '#test/support/seed.ts';
import { FILLED_TABLES, fillTenant, leftoversOf } from '#test/support/tenant-leftovers.ts';
import {
  ISSUER,
  setupTenantReconciler,
  type ReconcilerParts,
  type TenantReconciling,
} from '#test/support/tenant-reconciler.ts';
import type { ReconcileResult } from '../../../services/controller/runtime/controller-loop.ts';
import { createDeletionReconciler } from '../../../services/controller/tenant/purge-deleted.ts';

let s: TenantReconciling;

beforeAll(async () => {
  s = await setupTenantReconciler();
  s.putPlan('free');
});
afterAll(() => s[Symbol.asyncDispose]());

type Own = { readonly id: TenantId; readonly slug: string; readonly apiKeyId: string };

/** Creates a tenant as the API does, with an owner, a Vault key and rows in many tables. */
async function tenant(slug = `own-${randomUUID()}`): Promise<Own> {
  const id = newId<TenantId>();
  await withTenant(s.api, id, async (tx) => {
    const [user] = await tx<{ id: string }[]>`
      select who as id from sign_user_in(${ISSUER}, ${`founder-${id}`}, null, false, null)`;
    const made = await createTenant(tx, { id, slug, name: slug, plan: 'free', owner: user?.id as never });
    if (made === undefined) throw new Error('the slug is taken');
    await tx`insert into audit_log (tenant_id, actor, action, target) values (${id}, 'x', 'tenant.created', ${id})`;
  });
  await s.encrypter.ensureKey(id);
  return { ...(await fillTenant(s.admin, s.api, id)), id, slug };
}

const remove = (id: TenantId): Promise<void> => withTenant(s.api, id, (tx) => beginDeletion(id, tx));

/** Runs one pass over a slug, as if it had been deleted a while ago. @returns when the pass wants to run again. */
async function pass(slug: string, parts: ReconcilerParts = {}): Promise<ReconcileResult> {
  await backdatePurge(s.admin, slug);
  return createDeletionReconciler(s.withParts(parts))(slug, AbortSignal.timeout(20_000), s.log);
}

const leftovers = (id: string): Promise<Record<string, number>> => leftoversOf(s.admin, id);

async function keyExists(id: string): Promise<boolean> {
  return (await s.vault.request('GET', `${s.vault.mount}/keys/despatch-${id}`)).status === 200;
}

const statusOf = async (slug: string): Promise<unknown> =>
  (await s.admin`select status from tenants where slug = ${slug}`)[0]?.['status'];

describe('a tenant that the API deleted', () => {
  test('is purged: no row and no Vault key is left, and one notice about the tenant is sent', async () => {
    const { id, slug } = await tenant();
    expect(Object.keys(await leftovers(id))).toEqual(expect.arrayContaining(FILLED_TABLES));
    expect(await keyExists(id)).toBe(true);
    await remove(id);
    const told: TenantId[] = [];
    expect(await pass(slug, { notify: (one) => void told.push(one) })).toEqual({});
    expect([await leftovers(id), await keyExists(id), told]).toEqual([{}, false, [id]]);
  });

  test('is purged without changing another tenant, and the user who created it stays', async () => {
    const [gone, stays] = [await tenant(), await tenant()];
    const before = await leftovers(stays.id);
    await remove(gone.id);
    await pass(gone.slug);
    expect([await leftovers(stays.id), await keyExists(stays.id)]).toEqual([before, true]);
    expect(await s.admin`select from users where subject = ${`founder-${gone.id}`}`).toHaveLength(1);
  });

  test('is not purged while a message is claimed, and rejects new messages meanwhile', async () => {
    const own = await tenant();
    const [account] = await s.admin<
      { id: string }[]
    >`select id from provider_accounts where tenant_id = ${own.id}`;
    const claimed = await s.worker`
      select seq from claim_due(json_build_array(json_build_object('tenant_id', ${own.id}::text,
        'account_id', ${account?.id ?? ''}::text, 'most', 1, 'ahead_ms', 60000)), 'w', 60000, 1000000)`;
    expect(claimed).toHaveLength(1);
    await remove(own.id);
    expect(await pass(own.slug)).toEqual({ requeueAfterMs: 1_000 });
    expect((await leftovers(own.id))['messages']).toBe(1);
    const row = acceptRow({ tenantId: own.id, slug: own.slug, apiKeyId: own.apiKeyId });
    expect((await acceptBatch(s.api, [row]))[0]?.verdict).toBe('suspended');
    await s.admin`update live_messages set lease_until = now() - interval '1 second' where tenant_id = ${own.id}`;
    expect(await pass(own.slug)).toEqual({});
    expect(await leftovers(own.id)).toEqual({});
  });

  test.each(['purgeSome', 'destroy', 'endPurge'] as const)(
    'is purged by the next pass if the first one fails after %s',
    async (step) => {
      const { id, slug } = await tenant();
      await remove(id);
      const cut = async (work: Promise<unknown>): Promise<never> => {
        await work;
        throw new Error('cut off');
      };
      const { keys, store } = s;
      const broken = {
        keys: step === 'destroy' ? { ...keys, destroy: (one: TenantId) => cut(keys.destroy(one)) } : keys,
        store: {
          ...store,
          ...(step === 'purgeSome' && { purgeSome: (owned: OwnedSlug) => cut(store.purgeSome(owned, 10)) }),
          ...(step === 'endPurge' && { endPurge: (owned: OwnedSlug) => cut(store.endPurge(owned)) }),
        },
      };
      await expect(pass(slug, broken)).rejects.toThrow('cut off');
      expect(await pass(slug)).toEqual({});
      expect([await leftovers(id), await keyExists(id)]).toEqual([{}, false]);
    },
  );

  test('stays in status deleting, with its key, until Vault answers', async () => {
    const { id, slug } = await tenant();
    await remove(id);
    const keys = {
      ...s.keys,
      destroy: () => Promise.reject(new KeyringError('unavailable', 'Vault gave no answer')),
    };
    await expect(pass(slug, { keys })).rejects.toThrow('Vault gave no answer');
    expect([await statusOf(slug), await keyExists(id)]).toEqual(['deleting', true]);
    await pass(slug);
    expect([await leftovers(id), await keyExists(id)]).toEqual([{}, false]);
  });

  test('is purged in time slices: a pass that runs too long ends early and requeues at once', async () => {
    const { id, slug } = await tenant();
    await remove(id);
    let seconds = 0;
    const monotonicMs = () => (seconds += 3) * 1_000;
    const store = { ...s.store, purgeSome: (owned: OwnedSlug) => s.store.purgeSome(owned, 10) };
    expect(await pass(slug, { store, monotonicMs })).toEqual({ requeueAfterMs: 0 });
    expect(await statusOf(slug)).toBe('deleting');
    expect((await leftovers(id))['messages']).toBe(20);
  });

  test('frees its slug, and a stalled purge pass does not touch the next tenant with that slug', async () => {
    const first = await tenant();
    await remove(first.id);
    // The pass stops before it deletes anything and resumes when another tenant has the slug.
    const [reached, goOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const stopped = pass(first.slug, {
      store: {
        ...s.store,
        async purgeSome(owned, most) {
          reached.resolve();
          await goOn.promise;
          return s.store.purgeSome(owned, most);
        },
      },
    });
    await reached.promise;
    await pass(first.slug);
    const second = await tenant(first.slug);
    goOn.resolve();
    expect(await stopped).toEqual({});
    // A pass does not touch a tenant that is not being deleted either.
    expect(await pass(first.slug)).toEqual({});
    expect(await statusOf(first.slug)).toBe('active');
    expect((await leftovers(second.id))['messages']).toBe(30);
    expect([await keyExists(first.id), await keyExists(second.id)]).toEqual([false, true]);
  });

  test('is not purged by the deletion reconciler if a Tenant resource owns or purges it', async () => {
    const key = s.putTenant({ deletionPolicy: 'Purge' });
    await s.reconcile(key);
    const slug = key.split('/')[1] ?? '';
    const id = s.tenants.get(key)?.metadata.uid as TenantId;
    await remove(id);
    expect(await statusOf(slug)).toBe('active');
    const { uid, creationTimestamp: createdAt } = s.tenants.get(key)?.metadata ?? {
      uid: '',
      creationTimestamp: '',
    };
    await s.store.beginPurge({ slug, uid, ref: key, createdAt } satisfies GoneResource);
    expect(await statusOf(slug)).toBe('deleting');
    await s.admin`update tenants set updated_at = now() - interval '1 day' where slug = ${slug}`;
    expect(await s.store.tenantsToPurge(null, 1_000)).toContain(slug);
    expect(await pass(slug)).toEqual({});
    expect(await statusOf(slug)).toBe('deleting');
  });

  test('is purged although its resource was force-removed and its successor was deleted', async () => {
    const key = s.putTenant({ deletionPolicy: 'Purge' });
    await s.reconcile(key);
    const slug = key.split('/')[1] ?? '';
    const { uid, creationTimestamp: createdAt } = s.tenants.get(key)?.metadata ?? {
      uid: '',
      creationTimestamp: '',
    };
    await s.store.beginPurge({ slug, uid, ref: key, createdAt });
    s.tenants.delete(key);
    s.putTenant({ deletionPolicy: 'Retain' }, { key, uid: randomUUID(), createdAt: '2026-01-02T00:00:00Z' });
    const waiting = s.reconcilerWith({
      purges: { isWaiting: () => false, slice: async () => 'waiting' },
    });
    expect(await s.reconcile(key, waiting)).toEqual(['finalizer+', 'status']);
    s.remove(key);
    expect(await s.reconcile(key, waiting)).toEqual(['finalizer-']);
    expect([s.tenants.has(key), await statusOf(slug)]).toEqual([false, 'deleting']);
    expect(await s.store.tenantsToPurge(null, 1_000)).toContain(slug);
    expect(await pass(slug)).toEqual({});
    expect(await statusOf(slug)).toBeUndefined();
  });

  test('is listed by tenantsToPurge after a delay, in slug order with a cursor and a limit', async () => {
    const prefix = `z-${randomUUID().slice(0, 8)}`;
    const made = await Promise.all(['c', 'a', 'b', 'd'].map((name) => tenant(`${prefix}-${name}`)));
    for (const { id, slug } of made) if (!slug.endsWith('d')) await remove(id);
    // An api may still have a cached copy of them as active.
    expect(await s.store.tenantsToPurge(prefix, 2)).toEqual([]);
    await s.admin`update tenants set updated_at = now() - interval '11 seconds' where slug like ${`${prefix}-%`}`;
    expect(await s.store.tenantsToPurge(prefix, 2)).toEqual([`${prefix}-a`, `${prefix}-b`]);
    expect(await s.store.tenantsToPurge(`${prefix}-b`, 2)).toEqual([`${prefix}-c`]);
    expect(await s.store.tenantsToPurge(null, 1_000)).toEqual(
      expect.arrayContaining(['a', 'b', 'c'].map((name) => `${prefix}-${name}`)),
    );
  });
});

describe('a resource with the slug of a tenant that the API deleted', () => {
  const condition = (key: string) =>
    s.tenants.get(key)?.status?.conditions?.find(({ type }) => type === 'Applied');

  test('has a SlugConflict until the tenant is purged, and is then applied', async () => {
    const { id, slug } = await tenant();
    await remove(id);
    const key = s.putTenant({ slug, deletionPolicy: 'Purge' });
    await s.reconcile(key);
    expect(condition(key)).toMatchObject({ status: 'False', reason: 'SlugConflict' });
    expect((await leftovers(id))['messages']).toBe(30);
    await pass(slug);
    await s.reconcile(key);
    expect(condition(key)).toMatchObject({ status: 'True', reason: 'Applied' });
    expect(await s.admin`select id::text, status from tenants where slug = ${slug}`).toEqual([
      { id: s.tenants.get(key)?.metadata.uid, status: 'active' },
    ]);
  });

  test('does not take over the tenant that an earlier resource of its name retained', async () => {
    const key = s.putTenant();
    await s.reconcile(key);
    const id = s.tenants.get(key)?.metadata.uid as TenantId;
    s.remove(key);
    await s.reconcile(key);
    expect(s.tenants.has(key)).toBe(false);
    const slug = key.split('/')[1] ?? '';
    expect(await statusOf(slug)).toBe('suspended');
    await remove(id);
    s.putTenant({}, { key, uid: randomUUID(), createdAt: '2026-03-01T00:00:00Z' });
    await s.reconcile(key);
    expect([await statusOf(slug), condition(key)?.reason]).toEqual(['deleting', 'SlugConflict']);
    await pass(slug);
    expect(await leftovers(id)).toEqual({});
    await s.reconcile(key);
    expect(await statusOf(slug)).toBe('active');
  });
});
