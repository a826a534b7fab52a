import { expect, test } from 'vitest';
import type { ManagedTenantStore } from '#core/store/managed-tenants.ts';
import { buildMemoryController } from '#test/support/build-memory-controller.ts';
import { createMemoryKube } from '#test/support/memory-kube.ts';
import { KubeError } from './kube/kube-error.ts';

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
