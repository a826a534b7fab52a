/** A kind of resource, as the paths of the API server and the objects themselves name it. */
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

/** An object as the API server sends it: raw JSON, timestamps are text. */
export type KubeObject = {
  /** Items of lists of built-in kinds come without these two. */
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: KubeMeta;
};

/** Names an object of a kind; the namespace is absent for kinds without one. */
export type KubeRef = { readonly namespace?: string; readonly name: string };

export type KubeList<T> = {
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string };
  readonly items: readonly T[];
};

export type KubeWatchEvent<T> =
  | { readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'; readonly object: T }
  /** Nothing happened up to this version. */
  | { readonly type: 'BOOKMARK'; readonly resourceVersion: string };

/** `namespace/name`, or `name` where there is no namespace. Neither part can hold a slash. */
export function keyOf({ metadata: { namespace, name } }: { readonly metadata: KubeRef }): string {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

export function refOf(key: string): KubeRef {
  const at = key.indexOf('/');
  return at === -1 ? { name: key } : { namespace: key.slice(0, at), name: key.slice(at + 1) };
}

export function apiVersionOf({ group, version }: KubeResource): string {
  return group === '' ? version : `${group}/${version}`;
}
