/** Marks the objects that runs create, so that a later run finds what an earlier one left behind. */
export const NAMESPACE_LABEL = 'despatch.dev/end-to-end';

/** The names of all namespaces of runs begin with this. */
export const NAMESPACE_PREFIX = 'e2e-';

export function namespaceManifest(name: string, labels: Readonly<Record<string, string>> = {}): object {
  return {
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: { name, labels: { [NAMESPACE_LABEL]: 'true', ...labels } },
  };
}
