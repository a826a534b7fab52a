import { monotonicMs } from '#core/domain/clock.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import { encodeNotice } from '#core/domain/tenant/notice.ts';
import type { Nats } from '#core/platform/nats/nats-types.ts';
import type { KubeClient } from './kube/kube-client.ts';
import { keyOf } from './kube/kube-object.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';
import type { ControllerMetrics } from './metrics/controller-metrics.ts';
import type { KeyKeeper } from '#core/platform/vault/vault-keys.ts';
import type { ManagedTenantStore } from '#core/store/tenants/managed-tenants.ts';
import { ensureBuiltInPlans } from './plan/ensure-built-in-plans.ts';
import { createPlanReconciler } from './plan/reconcile-plan.ts';
import { rememberStatuses } from './resources/remember-statuses.ts';
import { createResourceWriter } from './resources/resource-writer.ts';
import { PLANS, TENANTS } from './resources/kube-resources.ts';
import type { PlanResource, PlanStatus } from './resources/plan-resource.ts';
import type { TenantResource } from './resources/tenant-resource.ts';
import type { TenantStatus } from './resources/tenant-status.ts';
import { createControllerLoop, type ControllerLoop } from './runtime/controller-loop.ts';
import type { EventRecorder } from './runtime/event-recorder.ts';
import { fenceWrites } from './runtime/fence-writes.ts';
import type { LeaderWork } from './runtime/manager.ts';
import { createReflector, type Reflector } from './runtime/reflector.ts';
import { oldestDeletionSeconds } from './tenant/deletion-age.ts';
import { findDeletions } from './tenant/find-deletions.ts';
import { withKeyBreaker } from './tenant/key-breaker.ts';
import { createDeletionReconciler } from './tenant/purge-deleted.ts';
import { createPurges } from './tenant/purge-slice.ts';
import { createTenantReconciler } from './tenant/reconcile-tenant.ts';
import { isToBeReady } from './tenant/is-to-be-ready.ts';
import { PAUSE_ANNOTATION, TENANT_FINALIZER } from './tenant/tenant-deps.ts';
import { trackConvergence } from './tenant/track-convergence.ts';
import { shouldReconcile } from './runtime/should-reconcile.ts';

export type ControllerDeps = {
  readonly kube: KubeClient;
  readonly store: ManagedTenantStore;
  readonly keys: KeyKeeper;
  readonly nats: Pick<Nats, 'publishNotice'>;
  readonly events: EventRecorder;
  readonly metrics: ControllerMetrics;
  readonly log: Logger;
  /** Called before each pass. */
  readonly isLeading: () => boolean;
  readonly settings: {
    /** Empty: all namespaces. */
    readonly watchNamespaces: readonly string[];
    readonly controllerName: string;
    readonly concurrency: number;
    readonly resyncMs: number;
  };
};

/** The parts that a manager runs. */
export type Controller = {
  readonly reflectors: readonly Reflector[];
  readonly loops: readonly ControllerLoop[];
  /** The leader's work outside its loops. */
  readonly whileLeading: LeaderWork;
};

/** Names of the controllers in logs and metrics. */
export const CONTROLLERS = ['tenant', 'plan', 'deletion'] as const;

const BY_PLAN = 'plan';
/** A purge of a large tenant is cut into slices much shorter than this. */
const PASS_MS = 60_000;

/** Assembles the controller and opens no connection. */
export function buildController(deps: ControllerDeps): Controller {
  const { events, metrics, log, isLeading } = deps;
  const kube = fenceWrites(deps.kube, isLeading);
  const { watchNamespaces, controllerName, concurrency, resyncMs } = deps.settings;
  const watching = { client: kube, namespaces: watchNamespaces, log, metrics };
  const tenantReflector = createReflector<TenantResource>({
    ...watching,
    resource: TENANTS,
    annotations: [PAUSE_ANNOTATION],
    indexes: { [BY_PLAN]: (tenant) => [tenant.spec.planRef.name] },
  });
  const planReflector = createReflector<PlanResource>({ ...watching, resource: PLANS });
  const [tenants, plans] = [tenantReflector.cache, planReflector.cache];
  const tenantWriter = createResourceWriter<TenantResource, TenantStatus>(
    kube,
    TENANTS,
    'despatch-controller',
  );
  // Each release is a field manager of its own: two releases may keep the same plan.
  const planWriter = createResourceWriter<PlanResource, PlanStatus>(
    kube,
    PLANS,
    `despatch-controller-${controllerName}`,
  );

  const tenantStatuses = rememberStatuses(tenants, tenantWriter);
  const planStatuses = rememberStatuses(plans, planWriter);

  const notify = (tenantId: TenantId): void => deps.nats.publishNotice('tenant', encodeNotice({ tenantId }));
  const now = () => new Date();
  const purges = createPurges({ store: deps.store, keys: deps.keys, notify, monotonicMs });
  const loop = { log, isLeading, metrics: metrics.reconciles, timeoutMs: PASS_MS };
  const tenantLoop = createControllerLoop({
    ...loop,
    name: 'tenant',
    keys: () => tenants.keys(),
    workers: concurrency,
    queueMetrics: metrics.workqueue('tenant'),
    reconcile: createTenantReconciler({
      tenants: tenantStatuses,
      plans,
      store: deps.store,
      keys: { ...deps.keys, ensure: withKeyBreaker(deps.keys.ensure) },
      resources: {
        addFinalizer: (tenant, signal) => tenantWriter.addFinalizer(tenant, TENANT_FINALIZER, signal),
        removeFinalizer: (tenant, signal) => tenantWriter.removeFinalizer(tenant, TENANT_FINALIZER, signal),
        applyStatus: tenantStatuses.applyStatus,
      },
      purges,
      requestPass: (key) => tenantLoop.enqueueRoutine(key),
      notify,
      events: {
        normal: (about, reason, note) => events.record(about, 'Normal', reason, note),
        warning: (about, reason, note) => events.record(about, 'Warning', reason, note),
        driftRepaired(about, fields) {
          metrics.driftRepaired('Tenant');
          events.record(about, 'Warning', 'DriftRepaired', `Reverted external changes: ${fields.join(', ')}`);
        },
      },
      now,
      random: Math.random,
      resyncMs,
    }),
  });
  const planLoop = createControllerLoop({
    ...loop,
    name: 'plan',
    keys: () => plans.keys(),
    workers: 1,
    queueMetrics: metrics.workqueue('plan'),
    reconcile: createPlanReconciler({
      plans: planStatuses,
      countBoundTenants: (name) => tenants.byIndex(BY_PLAN, name).length,
      areTenantsKnown: tenantReflector.isWhole,
      resources: { ...planWriter, applyStatus: planStatuses.applyStatus },
      warning: (about, reason, note) => events.record(about, 'Warning', reason, note),
      controllerName,
      now,
      resyncMs,
    }),
  });

  const deletionLoop = createControllerLoop({
    ...loop,
    name: 'deletion',
    // Tenants to delete are only in the database and are found by polling it.
    keys: () => [],
    // Nobody waits for a purge, and purges must not take database capacity from other work.
    workers: 1,
    queueMetrics: metrics.workqueue('deletion'),
    reconcile: createDeletionReconciler({
      store: deps.store,
      tenants,
      purges,
      requestPass: (slug) => deletionLoop.enqueueRoutine(slug),
    }),
  });

  tenants.subscribe((change) => {
    if (change.type !== 'updated') {
      tenantLoop.enqueue(change.key);
      planLoop.enqueue(change.object.spec.planRef.name);
      return;
    }
    if (!shouldReconcile(change.before, change.object)) return;
    tenantLoop.enqueue(change.key);
    const [was, is] = [change.before.spec.planRef.name, change.object.spec.planRef.name];
    if (was !== is) for (const name of [was, is]) planLoop.enqueue(name);
  });
  plans.subscribe((change) => {
    if (change.type === 'updated' && !shouldReconcile(change.before, change.object)) return;
    planLoop.enqueue(change.key);
    // Holding a plan (its finalizers) does not change its limits.
    if (change.type === 'updated' && change.before.metadata.generation === change.object.metadata.generation)
      return;
    for (const tenant of tenants.byIndex(BY_PLAN, change.key)) tenantLoop.enqueueRoutine(keyOf(tenant));
  });
  metrics.resourceConditions.from('Tenant', () => [...tenants.all()].filter(isToBeReady));
  metrics.resourceConditions.from('Plan', () => plans.all());
  metrics.oldestDeletion.from(() => oldestDeletionSeconds(tenants.all(), now().getTime()));
  const convergence = trackConvergence({
    tenants,
    plans,
    tenantsOf: (plan) => tenants.byIndex(BY_PLAN, plan),
    // All replicas observe it; only the leader reports it.
    onConverged(seconds) {
      if (isLeading()) metrics.converged(seconds);
    },
    steadyEpochMs: () => performance.timeOrigin + performance.now(),
  });
  metrics.longestConvergence.from(convergence.longestWaitSeconds);

  return {
    reflectors: [tenantReflector, planReflector],
    loops: [tenantLoop, planLoop, deletionLoop],
    whileLeading: {
      'built-in plans': (signal) => ensureBuiltInPlans({ kube, log }, signal),
      deletions: (signal) =>
        findDeletions({ store: deps.store, found: deletionLoop.enqueueIfIdle, log }, signal),
    },
  };
}
