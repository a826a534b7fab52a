import type { PlanResource, PlanStatus } from '../resources/plan-resource.ts';

/** What a plan's reconciliation works with. Resources come from caches and may be a moment old. */
export type PlanDeps = {
  readonly plans: { readonly get: (name: string) => PlanResource | undefined };
  /** Tenants of this release that name the plan. */
  readonly countBoundTenants: (planName: string) => number;
  readonly resources: {
    /** The plan as it is then; undefined where it is gone. */
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
  /** What people see with `kubectl describe`. */
  readonly warning: (about: PlanResource, reason: string, note: string) => void;
  /** Names this release among those of the cluster. */
  readonly controllerName: string;
  readonly now: () => Date;
  /** Between two looks at an unchanged plan, in milliseconds. */
  readonly resyncMs: number;
};
