/** A kind of resource, as named in the API server's paths and in the objects. */
export type KubeResource = {
  /** Empty for the core group. */
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
};

export type KubeMeta = {
  readonly name: string;
  readonly namespace?: string;
  readonly uid: string;
  readonly resourceVersion: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly finalizers?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
};

/** An object as the API server sends it: raw JSON with timestamps as text. */
export type KubeObject = {
  /** Absent on the items of lists of built-in kinds. */
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: KubeMeta;
};

/** Identifies an object within its kind; the namespace is absent for kinds without one. */
export type KubeRef = { readonly namespace?: string; readonly name: string };

export type KubeList<T> = {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly T[];
};

export type KubeWatchEvent<T> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  /** There were no changes up to this version. */
  | { readonly type: 'BOOKMARK'; readonly resourceVersion: string };

/** Returns `namespace/name`, or `name` without a namespace. Neither part can contain a slash. */
export function keyOf({ metadata: { namespace, name } }: { readonly metadata: KubeRef }): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

export function parseKey(key: string): KubeRef {
  const at = key.indexOf('/');
  return at === -1 ? { name: key } : { namespace: key.slice(0, at), name: key.slice(at + 1) };
}

export function apiVersionOf({ group, version }: KubeResource): string {
  return group === '' ? version : `${group}/${version}`;
}
