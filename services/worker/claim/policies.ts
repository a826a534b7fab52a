import type { FairQueue, TenantPolicy } from '#core/domain/queue/fair-queue.ts';
import { BUILT_IN_PLANS, type Limits } from '#core/domain/tenant/plan.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';

const TENANTS_AT_ONCE = 1_000;

/** Updates the weights and caps of the queued tenants from their plans. */
export async function refreshPolicies(
  store: Pick<WorkerStore, 'tenantLimits'>,
  queue: Pick<FairQueue<unknown>, 'tenantIds' | 'setPolicy'>,
): Promise<void> {
  const ids = queue.tenantIds();
  for (let i = 0; i < ids.length; i += TENANTS_AT_ONCE) {
    for (const row of await store.tenantLimits(ids.slice(i, i + TENANTS_AT_ONCE))) {
      queue.setPolicy(row.tenantId, policyOf(row.limits ?? BUILT_IN_PLANS.free));
    }
  }
}

function policyOf({ queueWeight, inFlightMax }: Pick<Limits, 'queueWeight' | 'inFlightMax'>): TenantPolicy {
  return { weight: queueWeight, inFlightMax };
}
