import type { TenantId } from '#core/domain/ids.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import type { KeyKeeper } from '#core/platform/vault/vault-keys.ts';
import type { ManagedTenantStore } from '#core/store/managed-tenants.ts';
import type { PlanResource } from '../resources/plan-resource.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';
import type { TenantStatus } from '../resources/tenant-status.ts';

/** What a tenant's reconciliation works with. Resources come from caches and may be a moment old. */
export type TenantDeps = {
  readonly tenants: { readonly get: (key: string) => TenantResource | undefined };
  readonly plans: { readonly get: (name: string) => PlanResource | undefined };
  readonly store: ManagedTenantStore;
  readonly keys: Omit<KeyKeeper, keyof AsyncDisposable>;
  readonly resources: {
    /** The resource as it is then; undefined where it is gone. */
    readonly addFinalizer: (
      tenant: TenantResource,
      signal: AbortSignal,
    ) => Promise<TenantResource | undefined>;
    readonly removeFinalizer: (tenant: TenantResource, signal: AbortSignal) => Promise<unknown>;
    readonly applyStatus: (
      tenant: TenantResource,
      status: TenantStatus,
      signal: AbortSignal,
    ) => Promise<void>;
  };
  /** Tells api and workers, after the commit, that their copies of the tenant are old. Best effort. */
  readonly notify: (tenantId: TenantId) => void;
  readonly events: TenantEvents;
  readonly log: Logger;
  readonly now: () => Date;
  readonly random: () => number;
  /** Between two looks at an unchanged resource, in milliseconds; each is up to a fifth longer or shorter. */
  readonly resyncMs: number;
};

/** What people see with `kubectl describe`. Notes hold no secret and no message. */
export type TenantEvents = {
  readonly normal: (about: TenantResource, reason: string, note: string) => void;
  readonly warning: (about: TenantResource, reason: string, note: string) => void;
  readonly driftRepaired: (about: TenantResource, fields: readonly string[]) => void;
};

export const TENANT_FINALIZER = 'tenant.despatch.dev/finalizer';
export const PAUSE_ANNOTATION = 'despatch.dev/paused';
