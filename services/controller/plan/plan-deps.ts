import type { PlanResource, PlanStatus } from '../resources/plan-resource.ts';

/** Dependencies of a plan's reconciliation. Resources come from caches and may be slightly stale. */
export type PlanDeps = {
  readonly plans: { readonly get: (name: string) => PlanResource | undefined };
  /** Returns the number of this release's tenants that name the plan. */
  readonly countBoundTenants: (planName: string) => number;
  /** Whether all of them are known: those of a namespace in which none may be listed are not. */
  readonly areTenantsKnown: () => boolean;
  readonly resources: {
    /** Returns the updated plan; undefined when it is gone. */
    readonly addFinalizer: (
      plan: PlanResource,
      finalizer: string,
      signal: AbortSignal,
    ) => Promise<PlanResource | undefined>;
    readonly removeFinalizer: (
      plan: PlanResource,
      finalizer: string,
      signal: AbortSignal,
    ) => Promise<PlanResource | undefined>;
    readonly applyStatus: (plan: PlanResource, status: PlanStatus, signal: AbortSignal) => Promise<void>;
  };
  /** Shown by `kubectl describe`. */
  readonly warning: (about: PlanResource, reason: string, note: string) => void;
  /** Distinguishes this release from others in the cluster. */
  readonly controllerName: string;
  readonly now: () => Date;
  /** Interval between two passes over an unchanged plan, in milliseconds. */
  readonly resyncMs: number;
};
