import { isDeepStrictEqual } from 'node:util';
import { conditionsOf, type Finding } from '../conditions.ts';
import type { TenantResource } from '../resources/tenant-resource.ts';
import type { TenantStatus } from '../resources/tenant-status.ts';
import type { TenantDeps } from './tenant-deps.ts';

/** A status without the fields about the resource as a whole. */
export type Facts = Omit<TenantStatus, 'conditions' | 'observedGeneration'>;

/** Writes the status if it changed. */
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
  if (!isDeepStrictEqual(plain(status), plain(tenant.status ?? {})))
    await resources.applyStatus(tenant, status, signal);
}

/** Changes only `Ready`: other known conditions stay. */
export async function writeNotReady(
  deps: Pick<TenantDeps, 'resources' | 'now'>,
  tenant: TenantResource,
  ready: Finding,
  signal: AbortSignal,
): Promise<void> {
  const { conditions = [], observedGeneration: _, ...facts } = tenant.status ?? {};
  const others = conditions.filter(({ type }) => type !== ready.type);
  await writeStatus(deps, tenant, { facts, findings: [ready, ...others] }, signal);
}

/** Returns the status as it is serialized: without undefined fields. */
function plain(status: object): unknown {
  return JSON.parse(JSON.stringify(status));
}
