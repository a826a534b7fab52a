import { PLANS, TENANTS } from '../tenant.ts';
import type { Kubectl, KubeObject } from './kubectl.ts';
import { NAMESPACE_LABEL, NAMESPACE_PREFIX } from './namespaces.ts';

const WITHOUT_FINALIZERS = { metadata: { finalizers: [] } };

/**
 * Removes the objects that this or an earlier run left in the cluster: releases with their namespaces, resources without a
 * controller, and the definitions if a run installed them.
 */
export async function removeLeftovers(kubectl: Kubectl, log: (line: string) => void): Promise<void> {
  const selector = ['--selector', `${NAMESPACE_LABEL}=true`];
  const namespaces = (await kubectl.list('namespaces', ...selector)).map(({ metadata }) => metadata.name);
  const known = await kubectl.list('customresourcedefinitions');
  const definitions = known.filter((one) => [TENANTS, PLANS].includes(one.metadata.name) && isOurs(one));
  if (namespaces.length === 0 && definitions.length === 0) return;
  log(`removing ${namespaces.join(', ') || 'the definitions of an earlier run'}`);
  // The controllers must be gone before the finalizers are removed, because they would add them again.
  for (const namespace of namespaces) {
    await kubectl.run(['delete', 'deployments', '--all', '--cascade=foreground', '--namespace', namespace]);
  }
  if (known.some(({ metadata }) => metadata.name === TENANTS)) {
    await removeTenants(kubectl, definitions.length > 0 ? undefined : new Set(namespaces));
  }
  if (definitions.some(({ metadata }) => metadata.name === PLANS)) await removePlans(kubectl);
  if (namespaces.length > 0) await kubectl.run(['delete', 'namespace', ...namespaces]);
  for (const { metadata } of definitions) await kubectl.delete('customresourcedefinition', metadata.name);
  for (const kind of ['clusterroles', 'clusterrolebindings']) {
    const own = (await kubectl.list(kind)).filter(isOurs);
    for (const { metadata } of own) await kubectl.delete(kind, metadata.name);
  }
}

/** Tells whether a run, or a release in a namespace of a run, created the object. */
function isOurs({ metadata: { labels, annotations } }: KubeObject): boolean {
  const namespace = annotations?.['meta.helm.sh/release-namespace'] ?? '';
  return labels?.[NAMESPACE_LABEL] === 'true' || namespace.startsWith(NAMESPACE_PREFIX);
}

/** @param namespaces from which to remove; absent: all. */
async function removeTenants(kubectl: Kubectl, namespaces: ReadonlySet<string> | undefined): Promise<void> {
  for (const { metadata } of await kubectl.list(TENANTS, '--all-namespaces')) {
    const { name, namespace = '' } = metadata;
    if (namespaces !== undefined && !namespaces.has(namespace)) continue;
    await kubectl.patch(TENANTS, name, WITHOUT_FINALIZERS, namespace);
    await kubectl.delete(TENANTS, name, '--namespace', namespace);
  }
}

async function removePlans(kubectl: Kubectl): Promise<void> {
  for (const { metadata } of await kubectl.list(PLANS)) {
    await kubectl.patch(PLANS, metadata.name, WITHOUT_FINALIZERS);
    await kubectl.delete(PLANS, metadata.name);
  }
}
