import { chunks } from '#core/domain/chunks.ts';
import type { FairQueue, TenantPolicy } from '#core/domain/queue/fair-queue.ts';
import { BUILT_IN_PLANS, type Limits } from '#core/domain/tenant/plan.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';

const TENANTS_AT_ONCE = 1_000;

/** Updates the weights and caps of the queued tenants from their plans. */
export async function refreshPolicies(
  store: Pick<WorkerStore, 'tenantLimits'>,
  queue: Pick<FairQueue<unknown>, 'tenantIds' | 'setPolicy'>,
): Promise<void> {
  for (const some of chunks(queue.tenantIds(), TENANTS_AT_ONCE)) {
    for (const { tenantId, limits } of await store.tenantLimits(some))
      queue.setPolicy(tenantId, policyOf(limits ?? BUILT_IN_PLANS.free));
  }
}

function policyOf({ queueWeight, inFlightMax }: Pick<Limits, 'queueWeight' | 'inFlightMax'>): TenantPolicy {
  return { weight: queueWeight, inFlightMax };
}
