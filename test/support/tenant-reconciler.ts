import { writtenLimits } from '../../services/controller/resources/limit-fields.ts';
import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { monotonicMs } from '#core/domain/clock.ts';
import type { AuditEntry } from '#core/domain/tenant/audit-entry.ts';
import { newId, type TenantId } from '#core/domain/storage/ids.ts';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import { openVaultKeyring } from '#core/platform/vault/vault-keyring.ts';
import { openVaultKeys } from '#core/platform/vault/vault-keys.ts';
import { managedTenantStore } from '#core/store/tenants/managed-tenants.ts';
import type { VaultService } from '../../deploy/vault/policies.ts';
import { PlanResource } from '../../services/controller/resources/plan-resource.ts';
import { TenantResource } from '../../services/controller/resources/tenant-resource.ts';
import type { TenantStatus } from '../../services/controller/resources/tenant-status.ts';
import { createPurges, type PurgeDeps } from '../../services/controller/tenant/purge-slice.ts';
import { createTenantReconciler } from '../../services/controller/tenant/reconcile-tenant.ts';
import { TENANT_FINALIZER, type TenantDeps } from '../../services/controller/tenant/tenant-deps.ts';
import { backdatePurge } from './backdate-purge.ts';
import { testDatabase } from './servers.ts';
import { openVaultLogins, vaultConfigAs } from './shared-vault.ts';

export const ISSUER = 'https://issuer.test';

/** One write of a reconciler: "finalizer+", "status", "event Reason", … */
export type Write = string;

/** Replaced dependencies, also of purges. */
export type ReconcilerParts = Partial<TenantDeps & PurgeDeps>;

/**
 * Sets up a tenant reconciler on a real Postgres and a real Vault, with the controller's database role and Vault policy. The
 * cluster consists of objects in memory; other tests use a real API server.
 */
export async function setupTenantReconciler() {
  const stack = new AsyncDisposableStack();
  const database = stack.use(await testDatabase());
  const [admin, api, worker] = [database.open('admin'), database.open('api'), database.open('worker')];
  const access = await openVaultLogins(stack);
  const log = createLogger({ level: 'error', component: 'test', destination: { write: () => undefined } });
  const vaultAs = (service: VaultService) => ({ config: vaultConfigAs(service, access), log });
  const keys = stack.use(openVaultKeys(vaultAs('controller')));
  const encrypter = stack.use(openVaultKeyring(vaultAs('api')));
  const decrypter = stack.use(openVaultKeyring(vaultAs('worker')));

  const tenants = new Map<string, TenantResource>();
  const plans = new Map<string, PlanResource>();
  const writes: Write[] = [];
  const audited: AuditEntry[] = [];
  let clock = () => new Date();
  const update = (tenant: TenantResource, change: Partial<TenantResource>): void => {
    const key = `${tenant.metadata.namespace}/${tenant.metadata.name}`;
    const now = tenants.get(key);
    if (now?.metadata.uid !== tenant.metadata.uid) return;
    const next = { ...now, ...change };
    const isGone = next.metadata.deletionTimestamp !== undefined && next.metadata.finalizers?.length === 0;
    if (isGone) tenants.delete(key);
    else tenants.set(key, next);
  };
  const ownStore = managedTenantStore(
    database.open('controller'),
    ISSUER,
    (entry) => void audited.push(entry),
  );
  const store: typeof ownStore = {
    ...ownStore,
    async beginPurge(gone) {
      const id = await ownStore.beginPurge(gone);
      await backdatePurge(admin, gone.slug);
      return id;
    },
  };
  const notify = (tenantId: TenantId): void => void writes.push(`notice ${tenantId}`);
  const deps: TenantDeps = {
    tenants,
    plans,
    store,
    keys,
    resources: {
      async addFinalizer(tenant) {
        writes.push('finalizer+');
        const finalizers = [...(tenant.metadata.finalizers ?? []), TENANT_FINALIZER];
        update(tenant, { metadata: { ...tenant.metadata, finalizers } });
        return tenants.get(`${tenant.metadata.namespace}/${tenant.metadata.name}`);
      },
      async removeFinalizer(tenant) {
        writes.push('finalizer-');
        const finalizers = (tenant.metadata.finalizers ?? []).filter((name) => name !== TENANT_FINALIZER);
        update(tenant, { metadata: { ...tenant.metadata, finalizers } });
        return tenants.get(`${tenant.metadata.namespace}/${tenant.metadata.name}`);
      },
      async applyStatus(tenant, status: TenantStatus) {
        writes.push('status');
        if (isDeepStrictEqual(tenant.status, status)) throw new Error('an equal status was written');
        update(tenant, { status });
      },
    },
    purges: createPurges({ store, keys, notify, monotonicMs }),
    requestPass: () => undefined,
    notify,
    events: {
      normal: (_about, reason) => void writes.push(`event ${reason}`),
      warning: (_about, reason) => void writes.push(`warning ${reason}`),
      driftRepaired: (_about, fields) => void writes.push(`drift ${fields.join(',')}`),
    },
    now: () => clock(),
    random: () => 0.5,
    resyncMs: 300_000,
  };

  /** The dependencies with some of them replaced, also in purges. */
  const withParts = (parts: ReconcilerParts): TenantDeps => {
    const changed = { ...deps, monotonicMs, ...parts };
    return { ...changed, purges: parts.purges ?? createPurges(changed) };
  };

  return {
    admin,
    api,
    worker,
    vault: access.vault,
    /** Its purges may end at once. */
    store,
    /** Its purges wait until no api has a cached copy of the tenant. */
    ownStore,
    keys,
    encrypter,
    decrypter,
    tenants,
    plans,
    deps,
    log,
    /** The audit log entries, in order. */
    audited,
    setClock: (next: () => Date): void => void (clock = next),
    /** Returns a reconciler in which some dependencies are replaced. */
    reconcilerWith: (parts: ReconcilerParts) => createTenantReconciler(withParts(parts)),
    withParts,
    /** Runs one pass; returns its writes to the cluster, NATS and events. */
    async reconcile(key: string, reconciler = createTenantReconciler(deps)): Promise<Write[]> {
      writes.length = 0;
      await reconciler(key, AbortSignal.timeout(20_000), log);
      return [...writes];
    },
    /** Declares a plan; a change increments its generation. */
    putPlan(name: string, limits: Record<string, number> = {}): void {
      const before = plans.get(name)?.metadata;
      plans.set(
        name,
        PlanResource.parse({
          apiVersion: 'despatch.dev/v1alpha1',
          kind: 'Plan',
          metadata: {
            name,
            uid: before?.uid ?? randomUUID(),
            generation: (before?.generation ?? 0) + 1,
            resourceVersion: '1',
            creationTimestamp: '2026-01-01T00:00:00Z',
          },
          spec: { displayName: name, limits: writtenLimits({ ...BUILT_IN_PLANS.free, ...limits }) },
        }),
      );
    },
    /** Declares a tenant under a name of its own, or changes it. Returns its key. */
    putTenant(spec: object = {}, at: { key?: string; uid?: string; createdAt?: string } = {}): string {
      const key = at.key ?? `team/t-${newId<TenantId>().slice(0, 8)}`;
      const [namespace = '', name = ''] = key.split('/');
      const before = at.uid === undefined ? tenants.get(key) : undefined;
      tenants.set(
        key,
        TenantResource.parse({
          apiVersion: 'despatch.dev/v1alpha1',
          kind: 'Tenant',
          metadata: {
            ...before?.metadata,
            name,
            namespace,
            uid: before?.metadata.uid ?? at.uid ?? randomUUID(),
            generation: (before?.metadata.generation ?? 0) + 1,
            resourceVersion: '1',
            creationTimestamp: before?.metadata.creationTimestamp ?? at.createdAt ?? '2026-01-01T00:00:00Z',
          },
          spec,
          ...(before?.status === undefined ? {} : { status: before.status }),
        }),
      );
      return key;
    },
    /** Requests deletion, as the API server does while the object has a finalizer. */
    remove(key: string): void {
      const tenant = tenants.get(key);
      if (tenant === undefined) throw new Error(`no tenant ${key}`);
      const deletionTimestamp = '2026-02-01T00:00:00Z';
      tenants.set(key, { ...tenant, metadata: { ...tenant.metadata, deletionTimestamp } });
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

export type TenantReconciling = Awaited<ReturnType<typeof setupTenantReconciler>>;
