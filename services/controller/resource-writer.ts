import type { KubeClient } from './kube/kube-client.ts';
import { isKubeError } from './kube/kube-error.ts';
import type { KubeObject, KubeResource } from './kube/kube-object.ts';

/** What a reconciler may change about an object of a kind: its finalizers and its status. */
export type ResourceWriter<T, Status> = {
  /** The object as it is then; undefined where it is gone. What is written to it next is bound to that version. */
  readonly addFinalizer: (object: T, finalizer: string, signal: AbortSignal) => Promise<T | undefined>;
  readonly removeFinalizer: (object: T, finalizer: string, signal: AbortSignal) => Promise<T | undefined>;
  /** All of the status that is ours. */
  readonly applyStatus: (object: T, status: Status, signal: AbortSignal) => Promise<void>;
};

/**
 * Writes to one kind as one field manager. An object that is gone, or another one by now, is left alone: its event is on
 * its way.
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
        await kube.applyStatus(resource, ref, status, { fieldManager, signal });
      } catch (error) {
        if (!isKubeError(error, 404) && !isKubeError(error, 409)) throw error;
      }
    },
  };
}
