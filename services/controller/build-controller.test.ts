import { afterEach, expect, test, vi } from 'vitest';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { KeyKeeper } from '#core/platform/vault/vault-keys.ts';
import type { ManagedTenantStore } from '#core/store/tenants/managed-tenants.ts';
import { buildMemoryController } from '#test/support/build-memory-controller.ts';
import { createMemoryKube } from '#test/support/memory-kube.ts';
import { KubeError } from './kube/kube-error.ts';

afterEach(() => {
  vi.useRealTimers();
});

test('deleted tenants are looked for although no built-in plan can be created', async () => {
  const looked = Promise.withResolvers<void>();
  const store: Pick<ManagedTenantStore, 'tenantsToPurge'> = {
    async tenantsToPurge() {
      looked.resolve();
      return [];
    },
  };
  const refused = () =>
    Promise.reject(new KubeError({ code: 403, reason: 'Forbidden', message: 'a policy refuses it' }));
  const controller = buildMemoryController(
    {
      kube: { ...createMemoryKube().client, create: refused },
      store: store as ManagedTenantStore,
      keys: {} as never,
    },
    1,
  );
  const end = new AbortController();
  const runs = Object.values(controller.whileLeading).map((run) => run(end.signal));
  await expect(Promise.race(runs)).rejects.toThrow('Built-in plans could not be created');
  await looked.promise;
  end.abort();
  await Promise.allSettled(runs);
});

test('while Vault is away, the attempts to purge a deleted tenant back off', async () => {
  vi.useFakeTimers();
  const began: number[] = [];
  const store: Pick<ManagedTenantStore, 'tenantsToPurge' | 'find' | 'purgeSome'> = {
    tenantsToPurge: async () => ['acme'],
    find: async () => ({ id: 'x', status: 'deleting', ownerUid: 'api:x', ownerRef: null }) as never,
    async purgeSome() {
      began.push(performance.now());
      return { outcome: 'empty', deleted: 0, id: 'x' as TenantId };
    },
  };
  const keys: Pick<KeyKeeper, 'destroy'> = { destroy: () => Promise.reject(new Error('away')) };
  const controller = buildMemoryController(
    { kube: createMemoryKube().client, store: store as ManagedTenantStore, keys: keys as KeyKeeper },
    1,
  );
  const end = new AbortController();
  const loop = controller.loops.find(({ name }) => name === 'deletion');
  loop?.start(end.signal);
  const looks = controller.whileLeading['deletions']?.(end.signal);
  await vi.advanceTimersByTimeAsync(180_000);
  const pauses = began.slice(1).map((at, index) => at - (began[index] ?? 0));
  expect(Math.min(...pauses.slice(-3))).toBeGreaterThan(20_000);
  expect(pauses.slice(0, -1).every((pause, index) => (pauses[index + 1] ?? 0) > pause * 0.7)).toBe(true);
  end.abort();
  await loop?.stop();
  await looks;
});
