import { keyOf, type KubeObject } from '../kube/kube-object.ts';
import type { ResourceCache } from '../runtime/resource-cache.ts';
import type { ResourceWriter } from './resource-writer.ts';

/** A watch reports a write within this time, unless it missed the version: a new list may show a later one. */
const REPORTED_WITHIN_MS = 60_000;

type Written<Status> = { readonly status: Status; readonly version: string; readonly at: number };

type RememberedStatuses<T, Status> = {
  readonly get: (key: string) => T | undefined;
  readonly applyStatus: (object: T, status: Status, signal: AbortSignal) => Promise<void>;
};

/**
 * Returns the objects of a cache with the statuses that were written last, and the write. A cache learns of a write by its watch.
 * A pass that begins earlier must not compare with the status before: it may find its own finding there, write nothing, and so
 * leave what was written in between until the next resync.
 */
export function rememberStatuses<T extends KubeObject & { readonly status?: object }, Status extends object>(
  cache: Pick<ResourceCache<T>, 'get' | 'subscribe'>,
  writer: Pick<ResourceWriter<T, Status>, 'applyStatus'>,
): RememberedStatuses<T, Status> {
  /** Not reported yet, by uid, the oldest first. */
  const written = new Map<string, Written<Status>>();

  cache.subscribe(({ type, object }) => {
    const { uid, resourceVersion } = object.metadata;
    if (type === 'deleted' || written.get(uid)?.version === resourceVersion) written.delete(uid);
  });

  function forgetMissed(): void {
    for (const [uid, { at }] of written) {
      if (performance.now() - at < REPORTED_WITHIN_MS) return;
      written.delete(uid);
    }
  }

  return {
    get(key) {
      forgetMissed();
      const object = cache.get(key);
      const last = object && written.get(object.metadata.uid);
      return last === undefined ? object : Object.assign({}, object, { status: last.status });
    },
    async applyStatus(object, status, signal) {
      const version = await writer.applyStatus(object, status, signal);
      const { uid } = object.metadata;
      written.delete(uid);
      // The watch may have been faster than the answer.
      if (version === undefined || cache.get(keyOf(object))?.metadata.resourceVersion === version) return;
      written.set(uid, { status, version, at: performance.now() });
    },
  };
}
