import { randomUUID } from 'node:crypto';
import type { KubeClient } from '../../services/controller/kube/kube-client.ts';
import { KubeError, replaced } from '../../services/controller/kube/kube-error.ts';
import {
  keyOf,
  type KubeObject,
  type KubeResource,
  type KubeWatchEvent,
} from '../../services/controller/kube/kube-object.ts';

type Operation =
  | 'list'
  | 'watch'
  | 'get'
  | 'create'
  | 'replace'
  | 'apply'
  | 'applyStatus'
  | 'patchFinalizers';
type Change = {
  readonly version: number;
  readonly plural: string;
  readonly event: KubeWatchEvent<KubeObject>;
};

/** A watch that a client has opened. */
export type OpenWatch = {
  readonly plural: string;
  readonly namespace: string | undefined;
  readonly from: string;
  readonly bookmark: () => void;
  /** Ends the watch normally, or with the error. */
  readonly end: (error?: Error) => void;
};

/** An API server in memory, for tests that need only its rules for versions, uids, conflicts and watches. */
export type MemoryKube = {
  readonly client: KubeClient;
  /** Every operation with its resource, in order, for example `list tenants`. */
  readonly calls: readonly string[];
  readonly watches: ReadonlySet<OpenWatch>;
  /** Writes an object as another client would, without the scripted failures. */
  readonly put: (resource: KubeResource, object: MemoryDraft) => KubeObject;
  readonly remove: (resource: KubeResource, key: string) => void;
  readonly read: (resource: KubeResource, key: string) => KubeObject | undefined;
  /** Replaces the next call of the operation, once. */
  readonly next: (operation: Operation, act: (signal: AbortSignal) => unknown) => void;
  /** Drops the history: a watch from an older version gets a 410. */
  readonly compact: () => void;
};

type MemoryDraft = { readonly metadata: { readonly name: string; readonly namespace?: string } };

export function createMemoryKube(): MemoryKube {
  const objects = new Map<string, KubeObject>();
  const history: Change[] = [];
  const calls: string[] = [];
  const scripted: { readonly operation: Operation; readonly act: (signal: AbortSignal) => unknown }[] = [];
  const watches = new Set<OpenWatch & { readonly tell: (change: Change) => void }>();
  let version = 100;
  let compacted = 0;

  const place = (resource: KubeResource, key: string): string => `${resource.plural} ${key}`;
  const status = (code: number, reason: string): KubeError =>
    new KubeError({ code, reason, message: reason });
  const must = (resource: KubeResource, key: string): KubeObject => {
    const object = objects.get(place(resource, key));
    if (object === undefined) throw status(404, 'NotFound');
    return object;
  };

  const emit = (
    resource: KubeResource,
    type: 'ADDED' | 'MODIFIED' | 'DELETED',
    object: KubeObject,
  ): KubeObject => {
    version += 1;
    const stamped = { ...object, metadata: { ...object.metadata, resourceVersion: String(version) } };
    if (type === 'DELETED') objects.delete(place(resource, keyOf(object)));
    else objects.set(place(resource, keyOf(object)), stamped);
    const change: Change = { version, plural: resource.plural, event: { type, object: stamped } };
    history.push(change);
    for (const watch of watches) watch.tell(change);
    return stamped;
  };

  const write = (resource: KubeResource, draft: MemoryDraft): KubeObject => {
    const before = objects.get(place(resource, keyOf(draft)));
    const uid = before?.metadata.uid ?? randomUUID();
    const object = {
      apiVersion: `${resource.group}/${resource.version}`,
      kind: resource.kind,
      ...draft,
      metadata: { ...before?.metadata, ...draft.metadata, uid, resourceVersion: '' },
    };
    return emit(resource, before === undefined ? 'ADDED' : 'MODIFIED', object);
  };

  /** Runs the scripted act instead of the operation where there is one. */
  const run = async <T>(
    operation: Operation,
    resource: KubeResource,
    signal: AbortSignal,
    act: () => T,
  ): Promise<T> => {
    calls.push(`${operation} ${resource.plural}`);
    await Promise.resolve();
    if (signal.aborted) throw status(0, 'Aborted');
    const at = scripted.findIndex((one) => one.operation === operation);
    const [script] = at === -1 ? [] : scripted.splice(at, 1);
    const result = script === undefined ? undefined : await script.act(signal);
    return script === undefined || result === undefined ? act() : (result as T);
  };

  const client: KubeClient = {
    list: (resource, options) =>
      run('list', resource, options.signal, () => {
        const all = [...objects]
          .filter(([at]) => at.startsWith(`${resource.plural} `))
          .map(([, object]) => object)
          .filter(
            ({ metadata }) => options.namespace === undefined || metadata.namespace === options.namespace,
          );
        const start = Number(options.continue ?? 0);
        const end = start + (options.limit ?? all.length);
        return {
          metadata: {
            resourceVersion: String(version),
            ...(end < all.length ? { continue: String(end) } : {}),
          },
          items: all.slice(start, end),
        } as never;
      }),

    async watch(resource, { signal, namespace, resourceVersion, onEvent }) {
      await run('watch', resource, signal, () => {
        if (Number(resourceVersion) < compacted) throw status(410, 'Expired');
      });
      const ended = Promise.withResolvers<void>();
      const send = onEvent as (event: KubeWatchEvent<KubeObject>) => void;
      const watch = {
        plural: resource.plural,
        namespace,
        from: resourceVersion,
        bookmark: () => send({ type: 'BOOKMARK', resourceVersion: String(version) }),
        end: (error?: Error) => (error === undefined ? ended.resolve() : ended.reject(error)),
        tell({ plural, version: at, event }: Change) {
          if (plural !== resource.plural || at <= Number(resourceVersion) || event.type === 'BOOKMARK')
            return;
          if (namespace === undefined || event.object.metadata.namespace === namespace) send(event);
        },
      };
      for (const change of history) watch.tell(change);
      watches.add(watch);
      const abort = (): void => ended.reject(status(0, 'Aborted'));
      signal.addEventListener('abort', abort);
      try {
        await ended.promise;
      } finally {
        watches.delete(watch);
        signal.removeEventListener('abort', abort);
      }
    },

    get: (resource, ref, { signal }) =>
      run('get', resource, signal, () => objects.get(place(resource, keyOf({ metadata: ref }))) as never),

    create: (resource, draft, { signal }) =>
      run('create', resource, signal, () => {
        if (objects.has(place(resource, keyOf(draft)))) throw status(409, 'AlreadyExists');
        return write(resource, draft) as never;
      }),

    replace: (resource, object, { signal }) =>
      run('replace', resource, signal, () => {
        const before = must(resource, keyOf(object));
        if (before.metadata.resourceVersion !== object.metadata.resourceVersion)
          throw status(409, 'Conflict');
        return write(resource, object) as never;
      }),

    apply: (resource, ref, fields, { signal }) =>
      run('apply', resource, signal, () => {
        const before = objects.get(place(resource, keyOf({ metadata: ref })));
        return write(resource, { ...before, ...fields, metadata: { ...before?.metadata, ...ref } }) as never;
      }),

    applyStatus: (resource, ref, fields, { signal }) =>
      run('applyStatus', resource, signal, () => {
        const { uid } = ref;
        const before = must(resource, keyOf({ metadata: ref }));
        if (uid !== undefined && uid !== before.metadata.uid) throw replaced();
        return write(resource, { ...before, status: fields } as MemoryDraft) as never;
      }),

    patchFinalizers: (resource, object, { add, remove }, { signal }) =>
      run('patchFinalizers', resource, signal, () => {
        const now = objects.get(place(resource, keyOf(object)));
        if (now?.metadata.uid !== object.metadata.uid) return undefined as never;
        const kept = (now.metadata.finalizers ?? []).filter((name) => name !== remove);
        const finalizers = add === undefined || kept.includes(add) ? kept : [...kept, add];
        const next = { ...now, metadata: { ...now.metadata, finalizers } };
        const isGone = next.metadata.deletionTimestamp !== undefined && finalizers.length === 0;
        return emit(resource, isGone ? 'DELETED' : 'MODIFIED', next) as never;
      }),

    [Symbol.asyncDispose]: () => Promise.resolve(),
  };

  return {
    client,
    calls,
    watches,
    put: write,
    remove: (resource, key) => void emit(resource, 'DELETED', must(resource, key)),
    read: (resource, key) => objects.get(place(resource, key)),
    next: (operation, act) => void scripted.push({ operation, act }),
    compact: () => {
      compacted = version;
      history.length = 0;
    },
  };
}
