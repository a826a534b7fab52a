import { expect, test } from 'vitest';
import type { TenantPolicy } from '#core/domain/queue/fair-queue.ts';
import { BUILT_IN_PLANS } from '#core/domain/tenant/plan.ts';
import { refreshPolicies } from './refresh-policies.ts';

test('each queued tenant gets the weight and cap of its limits, or those of the free plan', async () => {
  const policies: Record<string, TenantPolicy> = {};
  await refreshPolicies(
    {
      tenantLimits: (ids) =>
        Promise.resolve(
          ids.map((tenantId) => ({
            tenantId,
            limits: tenantId === 'large' ? BUILT_IN_PLANS.enterprise : null,
          })),
        ),
    },
    {
      tenantIds: () => ['large', 'new'],
      setPolicy: (tenantId, policy) => void (policies[tenantId] = policy),
    },
  );
  expect(policies).toEqual({
    large: { weight: 20, inFlightMax: 1_000 },
    new: { weight: 1, inFlightMax: 50 },
  });
});
