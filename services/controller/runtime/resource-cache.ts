import { keyOf, type KubeObject } from '../kube/kube-object.ts';
import type { Logger } from '#core/platform/telemetry/logger.ts';

export type ResourceChange<T> =
  | { readonly type: 'added'; readonly key: string; readonly object: T }
  | { readonly type: 'updated'; readonly key: string; readonly object: T; readonly before: T }
  /** `object` is the last known state. An object that was recreated under its old name comes as `deleted`, then `added`. */
  | { readonly type: 'deleted'; readonly key: string; readonly object: T };

/** Returns the values under which the index finds an object, for example the name of its plan. */
export type IndexOf<T> = (object: T) => readonly string[];

/** The known objects of a kind. Read only: all readers share the objects. */
export type ResourceCache<T extends KubeObject = KubeObject> = {
  readonly kind: string;
  /** `namespace/name`, or `name` for kinds without namespaces. */
  readonly get: (key: string) => T | undefined;
  readonly all: () => IterableIterator<T>;
  readonly keys: () => IterableIterator<string>;
  /** Returns all objects with this value in the index. @throws RangeError for an undeclared index. */
  readonly byIndex: (index: string, value: string) => readonly T[];
  /** Called for each change, after the cache has applied it. Subscribe before the start to receive every change. */
  readonly subscribe: (onChange: (change: ResourceChange<T>) => void) => void;
  /** Resolves when every watched namespace was listed once, except for those in which nothing may be listed. */
  readonly synced: Promise<void>;
  readonly isSynced: () => boolean;
};

/** The write interface, only for the reflector. */
export type CacheWriter<T extends KubeObject> = {
  readonly cache: ResourceCache<T>;
  readonly put: (object: T) => void;
  readonly remove: (object: T) => void;
  /** Replaces the content of one namespace, or of all when none is given, with a list. */
  readonly replace: (items: readonly T[], namespace: string | undefined) => void;
  readonly markSynced: () => void;
};

export type ResourceCacheOptions<T> = {
  readonly kind: string;
  readonly log: Logger;
  readonly indexes?: Readonly<Record<string, IndexOf<T>>>;
};

/**
 * Creates a cache of objects by key, each with its `uid`: an object that was deleted and recreated under one name between
 * two watches is reported as a deletion and an addition, never as an update.
 */
export function createResourceCache<T extends KubeObject>({
  kind,
  log,
  indexes = {},
}: ResourceCacheOptions<T>): CacheWriter<T> {
  const objects = new Map<string, T>();
  const entries = new Map(Object.keys(indexes).map((name) => [name, new Map<string, Set<string>>()]));
  const subscribers: ((change: ResourceChange<T>) => void)[] = [];
  const synced = Promise.withResolvers<void>();
  let isSynced = false;

  const tell = (change: ResourceChange<T>): void => {
    for (const onChange of subscribers) {
      try {
        onChange(change);
      } catch (error) {
        log.error({ err: error, kind }, 'A subscriber of a cache failed');
      }
    }
  };

  /** Calls `change` for each value of the object in each index, with the index's keys by value. */
  const inIndexes = (
    object: T,
    change: (keysByValue: Map<string, Set<string>>, value: string) => void,
  ): void => {
    for (const [name, keysByValue] of entries)
      for (const value of indexes[name]?.(object) ?? []) change(keysByValue, value);
  };
  const addToIndexes = (key: string, object: T): void =>
    inIndexes(object, (keysByValue, value) => {
      keysByValue.set(value, (keysByValue.get(value) ?? new Set()).add(key));
    });
  const removeFromIndexes = (key: string, object: T): void =>
    inIndexes(object, (keysByValue, value) => {
      const keys = keysByValue.get(value);
      keys?.delete(key);
      if (keys?.size === 0) keysByValue.delete(value);
    });

  const put = (object: T): void => {
    const key = keyOf(object);
    const before = objects.get(key);
    if (before !== undefined && before.metadata.uid === object.metadata.uid) {
      if (before.metadata.resourceVersion === object.metadata.resourceVersion) return;
      removeFromIndexes(key, before);
      objects.set(key, object);
      addToIndexes(key, object);
      tell({ type: 'updated', key, object, before });
      return;
    }
    if (before !== undefined) drop(key, before);
    objects.set(key, object);
    addToIndexes(key, object);
    tell({ type: 'added', key, object });
  };

  const drop = (key: string, last: T): void => {
    const known = objects.get(key);
    if (known === undefined) return;
    removeFromIndexes(key, known);
    objects.delete(key);
    tell({ type: 'deleted', key, object: last });
  };

  return {
    cache: {
      kind,
      get: (key) => objects.get(key),
      all: () => objects.values(),
      keys: () => objects.keys(),
      byIndex(name, value) {
        const keysByValue = entries.get(name);
        if (keysByValue === undefined) throw new RangeError(`The cache of ${kind} has no index ${name}`);
        return [...(keysByValue.get(value) ?? [])].flatMap((key) => objects.get(key) ?? []);
      },
      subscribe: (onChange) => void subscribers.push(onChange),
      synced: synced.promise,
      isSynced: () => isSynced,
    },
    put,
    remove: (object) => drop(keyOf(object), object),
    replace(items, namespace) {
      const present = new Set(items.map(keyOf));
      for (const [key, object] of objects) {
        const isMeant = namespace === undefined || object.metadata.namespace === namespace;
        if (isMeant && !present.has(key)) drop(key, object);
      }
      for (const object of items) put(object);
    },
    markSynced() {
      isSynced = true;
      synced.resolve();
    },
  };
}
