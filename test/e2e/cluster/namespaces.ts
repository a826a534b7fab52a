/** Marks what runs have made, so that a later one finds what an earlier one could not clean up. */
export const NAMESPACE_LABEL = 'despatch.dev/end-to-end';

/** All namespaces of runs are named so. */
export const NAMESPACE_PREFIX = 'e2e-';

export function namespaceManifest(name: string, labels: Readonly<Record<string, string>> = {}): object {
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name, labels: { [NAMESPACE_LABEL]: 'true', ...labels } },
  };
}
