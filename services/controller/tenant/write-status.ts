import { isDeepStrictEqual } from 'node:util';
import { conditionsOf, ownConditions, type Finding } from '../resources/own-conditions.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';
import type { TenantStatus } from '../resources/tenant-status.ts';
import type { TenantDeps } from './tenant-deps.ts';

/** A status without the fields about the resource as a whole. */
export type Facts = Omit<TenantStatus, 'conditions' | 'observedGeneration'>;

/** Writes the status if it changed. Conditions of other writers are neither compared nor written. */
export async function writeStatus(
  { resources, now }: Pick<TenantDeps, 'resources' | 'now'>,
  tenant: TenantResource,
  found: { readonly facts: Facts; readonly findings: readonly Finding[] },
  signal: AbortSignal,
): Promise<void> {
  const { generation } = tenant.metadata;
  const status: TenantStatus = {
    ...found.facts,
    observedGeneration: generation,
    conditions: conditionsOf(found.findings, tenant.status?.conditions, generation, now()),
  };
  const before = tenant.status && {
    ...tenant.status,
    conditions: ownConditions('Tenant', tenant.status.conditions),
  };
  if (!isDeepStrictEqual(plain(status), plain(before ?? {})))
    await resources.applyStatus(tenant, status, signal);
}

/** Changes only `Ready`: our other conditions stay as they are known. */
export async function writeNotReady(
  deps: Pick<TenantDeps, 'resources' | 'now'>,
  tenant: TenantResource,
  ready: Finding,
  signal: AbortSignal,
): Promise<void> {
  const { conditions = [], observedGeneration: _, ...facts } = tenant.status ?? {};
  const others = ownConditions('Tenant', conditions).filter(({ type }) => type !== ready.type);
  await writeStatus(deps, tenant, { facts, findings: [ready, ...others] }, signal);
}

/** Returns the status as it is serialized: without undefined fields. */
function plain(status: object): unknown {
  return JSON.parse(JSON.stringify(status));
}
