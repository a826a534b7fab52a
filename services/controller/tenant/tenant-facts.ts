import { writtenLimits } from '../resources/limit-fields.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Limits } from '#core/domain/tenant/plan.ts';
import type { KeyFacts } from '#core/platform/vault/vault-keys.ts';
import { wholeSeconds } from '../resources/own-conditions.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';
import { slugOf, type PlanRevision } from './wanted-tenant.ts';
import type { Facts } from './write-status.ts';

export type InForce = {
  /** Null when the resource does not own a tenant. */
  readonly id: TenantId | null;
  readonly limits: Limits | null;
  readonly plan: PlanRevision | null;
};

/** @param key Absent when Vault did not answer: the known facts about the key stay. */
export function factsFound(
  tenant: TenantResource,
  { id, limits, plan }: InForce,
  key: KeyFacts | undefined,
): Facts {
  const known = tenant.status?.encryption;
  return {
    slug: slugOf(tenant),
    ...(id === null ? {} : { tenantId: id }),
    ...(limits === null ? {} : { effectiveLimits: writtenLimits(limits) }),
    ...(plan === null ? {} : { plan: { name: plan.name, generation: plan.generation } }),
    ...(key === undefined ? (known === undefined ? {} : { encryption: known }) : { encryption: shown(key) }),
  };
}

/** While the database is unavailable, the last known facts stay. */
export function factsKnown(tenant: TenantResource): Facts {
  const { conditions: _conditions, observedGeneration: _generation, ...facts } = tenant.status ?? {};
  return { ...facts, slug: slugOf(tenant) };
}

function shown({ name, latestVersion, rotatedAt }: KeyFacts): Facts['encryption'] & object {
  return { keyName: name, latestVersion, lastRotationTime: wholeSeconds(rotatedAt) };
}
