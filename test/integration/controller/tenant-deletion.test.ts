import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import { KeyringError, type KeyringErrorCode } from '#core/platform/vault/keyring.ts';
import { backdatePurge } from '#test/support/backdate-purge.ts';
import { setupTenantReconciler, type TenantReconciling } from '#test/support/tenant-reconciler.ts';

let s: TenantReconciling;

beforeAll(async () => {
  s = await setupTenantReconciler();
  s.putPlan('free');
});
afterAll(() => s[Symbol.asyncDispose]());

const condition = (key: string, type: string) =>
  s.tenants.get(key)?.status?.conditions?.find((one) => one.type === type);

const databaseAway = () => Promise.reject(new DependencyError('postgres', 'deadline', 'no answer'));

/** Returns a reconciler whose calls to destroy a key fail. */
const vaultSays = (code: KeyringErrorCode) =>
  s.reconcilerWith({
    keys: { ...s.keys, destroy: () => Promise.reject(new KeyringError(code, 'no answer')) },
  });

/** Declares a tenant and brings it into force. */
async function declared(deletionPolicy: 'Retain' | 'Purge'): Promise<string> {
  const key = s.putTenant({ deletionPolicy });
  await s.reconcile(key);
  expect(condition(key, 'Ready')).toMatchObject({ status: 'True' });
  return key;
}

describe('a resource that cannot be finalized shows the cause in its Ready condition', () => {
  test.each([
    ['Vault gives no answer', 'VaultUnavailable', () => vaultSays('unavailable')],
    ['Vault refuses', 'VaultRefused', () => vaultSays('refused')],
    [
      'the database does not begin the purge',
      'DatabaseUnavailable',
      () => s.reconcilerWith({ store: { ...s.store, beginPurge: databaseAway } }),
    ],
    [
      'the database does not end the purge',
      'DatabaseUnavailable',
      () => s.reconcilerWith({ store: { ...s.store, endPurge: databaseAway } }),
    ],
  ])('with Purge, when %s', async (_what, reason, reconciler) => {
    const key = await declared('Purge');
    s.remove(key);
    await expect(s.reconcile(key, reconciler())).rejects.toThrow('no answer');
    expect(condition(key, 'Ready')).toMatchObject({ status: 'False', reason });
    await s.reconcile(key);
    expect(s.tenants.has(key)).toBe(false);
  });

  test('with Retain, when the database does not store the suspension', async () => {
    const key = await declared('Retain');
    s.remove(key);
    const reconciler = s.reconcilerWith({ store: { ...s.store, retain: databaseAway } });
    await expect(s.reconcile(key, reconciler)).rejects.toThrow('no answer');
    expect(condition(key, 'Ready')).toMatchObject({ status: 'False', reason: 'DatabaseUnavailable' });
    await s.reconcile(key);
    expect(s.tenants.has(key)).toBe(false);
  });
});

test('a purge does not destroy the key while an api may still have the tenant in its cache', async () => {
  const key = await declared('Purge');
  const id = s.tenants.get(key)?.status?.tenantId as TenantId;
  const keyStatus = async () => (await s.vault.request('GET', `${s.vault.mount}/keys/despatch-${id}`)).status;
  s.remove(key);
  const pass = s.reconcilerWith({ store: s.ownStore });
  expect(await pass(key, AbortSignal.timeout(20_000), s.log)).toEqual({ requeueAfterMs: 1_000 });
  expect(condition(key, 'Ready')).toMatchObject({ status: 'False', reason: 'Purging' });
  // A request of a member, authenticated before the purge began, stores a secret.
  await s.encrypter.ensureKey(id);
  expect(await keyStatus()).toBe(200);

  await backdatePurge(s.admin, key.split('/')[1] ?? '');
  await s.reconcile(key, pass);
  expect([s.tenants.has(key), await keyStatus()]).toEqual([false, 404]);
});

test('a resource that waits for an earlier purge shows VaultUnavailable if Vault is down', async () => {
  const key = await declared('Purge');
  const tenant = s.tenants.get(key);
  if (tenant === undefined) throw new Error('no tenant');
  const { uid, creationTimestamp: createdAt } = tenant.metadata;
  await s.store.beginPurge({ slug: key.split('/')[1] ?? '', uid, ref: key, createdAt });
  s.putTenant({}, { key, uid: crypto.randomUUID(), createdAt: '2026-03-01T00:00:00Z' });
  await expect(s.reconcile(key, vaultSays('unavailable'))).rejects.toThrow('no answer');
  for (const type of ['Ready', 'Applied'])
    expect(condition(key, type)).toMatchObject({ status: 'False', reason: 'VaultUnavailable' });
});
