import type { KubeObject } from '#core/platform/kube-object.ts';

export type ResourceChange<T> =
  | { readonly type: 'added'; readonly key: string; readonly object: T }
  | { readonly type: 'updated'; readonly key: string; readonly object: T; readonly before: T }
  /** `object` is the last known state. An object made anew under its old name comes as `deleted`, then `added`. */
  | { readonly type: 'deleted'; readonly key: string; readonly object: T };

/** The values under which an object is found again, for example the name of its plan. */
export type IndexOf<T> = (object: T) => readonly string[];

/** What is known of all objects of a kind. Read only: objects are shared with every reader. */
export type ResourceCache<T extends KubeObject> = {
  readonly kind: string;
  /** `namespace/name`, or `name` for kinds without namespaces. */
  readonly get: (key: string) => T | undefined;
  readonly all: () => IterableIterator<T>;
  readonly keys: () => IterableIterator<string>;
  /** All objects that the index has under this value. @throws RangeError for an index nobody declared. */
  readonly byIndex: (index: string, value: string) => readonly T[];
  /** Called for each change after the cache has it. To be told of everything, subscribe before the start. */
  readonly subscribe: (onChange: (change: ResourceChange<T>) => void) => void;
  /** Resolves when every watched namespace was listed once. */
  readonly synced: Promise<void>;
  readonly isSynced: () => boolean;
};
