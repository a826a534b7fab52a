import { expect, test } from 'vitest';
import { silentLogger } from '#core/platform/telemetry/logger.ts';
import type { ManagedTenantStore } from '#core/store/managed-tenants.ts';
import { createMemoryKube } from '#test/support/memory-kube.ts';
import { buildController, CONDITION_TYPES, CONTROLLERS } from './build-controller.ts';
import { KubeError } from './kube/kube-error.ts';
import { createControllerMetrics } from './metrics/controller-metrics.ts';

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
  const controller = buildController({
    kube: { ...createMemoryKube().client, create: refused },
    store: store as ManagedTenantStore,
    keys: {} as never,
    nats: { publishNotice: () => undefined },
    events: { record: () => undefined },
    metrics: createControllerMetrics({
      controllers: CONTROLLERS,
      conditions: CONDITION_TYPES,
      leaseName: 'l',
    }),
    log: silentLogger,
    isLeading: () => true,
    settings: { watchNamespaces: [], controllerName: 'one', concurrency: 1, resyncMs: 300_000 },
  });
  const end = new AbortController();
  const runs = Object.values(controller.whileLeading).map((run) => run(end.signal));
  await expect(Promise.race(runs)).rejects.toThrow('Built-in plans could not be created');
  await looked.promise;
  end.abort();
  await Promise.allSettled(runs);
});
