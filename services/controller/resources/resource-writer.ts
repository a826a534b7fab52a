import type { KubeClient } from '../kube/kube-client.ts';
import { isGone } from '../kube/kube-error.ts';
import type { KubeObject, KubeResource } from '../kube/kube-object.ts';

/** What a reconciler may change of an object: its finalizers and its status. */
export type ResourceWriter<T, Status> = {
  /** Returns the updated object; undefined when it is gone. The next write is bound to that version. */
  readonly addFinalizer: (object: T, finalizer: string, signal: AbortSignal) => Promise<T | undefined>;
  readonly removeFinalizer: (object: T, finalizer: string, signal: AbortSignal) => Promise<T | undefined>;
  /**
   * Applies all status fields that we own. Returns the object's new version; undefined when it is gone.
   * @throws KubeError 409 when other writers keep changing the object.
   */
  readonly applyStatus: (object: T, status: Status, signal: AbortSignal) => Promise<string | undefined>;
};

/**
 * Writes to one kind as one field manager. An object that is gone or was replaced is not changed: its watch event will
 * arrive.
 */
export function createResourceWriter<T extends KubeObject, Status extends object>(
  kube: Pick<KubeClient, 'patchFinalizers' | 'applyStatus'>,
  resource: KubeResource,
  fieldManager: string,
): ResourceWriter<T, Status> {
  return {
    addFinalizer: (object, add, signal) => kube.patchFinalizers(resource, object, { add }, { signal }),
    removeFinalizer: (object, remove, signal) =>
      kube.patchFinalizers(resource, object, { remove }, { signal }),
    async applyStatus(object, status, signal) {
      const { name, namespace, uid, resourceVersion } = object.metadata;
      const ref = { name, uid, resourceVersion, ...(namespace === undefined ? {} : { namespace }) };
      try {
        const written = await kube.applyStatus<T>(resource, ref, status, { fieldManager, signal });
        return written.metadata.resourceVersion;
      } catch (error) {
        if (!isGone(error)) throw error;
        return undefined;
      }
    },
  };
}
