import type { TenantId } from '#core/domain/storage/ids.ts';
import type { KeyKeeper } from '#core/platform/vault/vault-keys.ts';
import type { ManagedTenantStore } from '#core/store/tenants/managed-tenants.ts';
import type { PlanResource } from '../resources/plan-resource.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';
import type { TenantStatus } from '../resources/tenant-status.ts';
import type { Purges } from './purge-slice.ts';

/** Dependencies of a tenant's reconciliation. Resources come from caches and may be slightly stale. */
export type TenantDeps = {
  readonly tenants: { readonly get: (key: string) => TenantResource | undefined };
  readonly plans: { readonly get: (name: string) => PlanResource | undefined };
  readonly store: ManagedTenantStore;
  readonly keys: Omit<KeyKeeper, keyof AsyncDisposable>;
  readonly resources: {
    /** Returns the updated resource; undefined when it is gone. */
    readonly addFinalizer: (
      tenant: TenantResource,
      signal: AbortSignal,
    ) => Promise<TenantResource | undefined>;
    /** Returns the updated resource, which is gone if it has no finalizer; undefined when it was gone before. */
    readonly removeFinalizer: (
      tenant: TenantResource,
      signal: AbortSignal,
    ) => Promise<TenantResource | undefined>;
    readonly applyStatus: (
      tenant: TenantResource,
      status: TenantStatus,
      signal: AbortSignal,
    ) => Promise<void>;
  };
  readonly purges: Purges;
  /** Requests a pass over the resource with this key. */
  readonly requestPass: (key: string) => void;
  /** Notifies api and workers, after the commit, that their cached copies of the tenant are stale. Best effort. */
  readonly notify: (tenantId: TenantId) => void;
  readonly events: TenantEvents;
  readonly now: () => Date;
  readonly random: () => number;
  /**
   * Interval between two passes over an unchanged resource, in milliseconds; each one is up to a fifth longer or shorter.
   */
  readonly resyncMs: number;
};

/** Shown by `kubectl describe`. Notes never contain a secret or a message. */
export type TenantEvents = {
  readonly normal: (about: TenantResource, reason: string, note: string) => void;
  readonly warning: (about: TenantResource, reason: string, note: string) => void;
  readonly driftRepaired: (about: TenantResource, fields: readonly string[]) => void;
};

export const TENANT_FINALIZER = 'tenant.despatch.dev/finalizer';
export const PAUSE_ANNOTATION = 'despatch.dev/paused';
