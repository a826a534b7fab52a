import type { KubeApplyOptions as ApplyOptions, KubeCall, KubeClient } from './kube-client.ts';
import type { KubeObjects, KubePlace } from './kube-api.ts';
import { isKubeError, KubeError, replaced } from './kube-error.ts';
import { apiVersionOf, type KubeObject, type KubeResource } from './kube-object.ts';

/** How often a write is repeated after a conflict with another writer. */
const CONFLICTS_MAX = 5;

/** `isRepeatable`: whether a call whose outcome is unknown may be made again. */
export type RetriedCall = KubeCall & { readonly isRepeatable: boolean };

/** Executes a write and retries it after a failure if that is safe. */
export type Write = (
  place: KubePlace,
  options: RetriedCall,
  act: (objects: KubeObjects) => Promise<unknown>,
) => Promise<unknown>;

type Calling = {
  readonly client: KubeClient;
  readonly write: Write;
  readonly resource: KubeResource;
};

type StatusPatch = Calling & {
  readonly ref: Parameters<KubeClient['applyStatus']>[1];
  readonly status: object;
  readonly options: ApplyOptions;
};

/**
 * The API server does not compare the `uid` on a status update (it takes everything except the status from the stored
 * object), so the write is bound to a version that the right object had.
 */
export async function applyStatus<T extends KubeObject>(patch: StatusPatch): Promise<T> {
  const { client, write, resource, status, options } = patch;
  const { uid, resourceVersion, ...ref } = patch.ref;
  let version = resourceVersion;
  for (let conflicts = 0; ; conflicts += 1) {
    if (uid !== undefined && version === undefined) {
      const object = await client.get(resource, ref, options);
      if (object?.metadata.uid !== uid) throw object === undefined ? gone() : replaced();
      version = object.metadata.resourceVersion;
    }
    const bound = uid === undefined ? {} : { resourceVersion: version };
    try {
      const body = { ...typeOf(resource), metadata: { ...ref, ...bound }, status };
      const place = { resource, namespace: ref.namespace };
      return (await write(place, { ...options, isRepeatable: true }, (objects) =>
        objects.applyStatus(ref.name, body, managed(options)),
      )) as T;
    } catch (error) {
      const isVersion = uid !== undefined && isKubeError(error, 409);
      if (!isVersion || conflicts === CONFLICTS_MAX) throw error;
      version = undefined;
    }
  }
}

function gone(): KubeError {
  return new KubeError({ code: 404, reason: 'NotFound', message: 'The object is gone' });
}

type FinalizerPatch<T extends KubeObject> = Calling & {
  readonly object: T;
  readonly change: { readonly add?: string; readonly remove?: string };
  readonly options: KubeCall;
};

/**
 * A merge patch replaces the whole list, so it is bound to the version from which it was computed, and computed again after
 * a conflict.
 */
export async function patchFinalizers<T extends KubeObject>(
  patch: FinalizerPatch<T>,
): Promise<T | undefined> {
  const { client, write, resource, change, options } = patch;
  let object: T | undefined = patch.object;
  for (let conflicts = 0; object?.metadata.uid === patch.object.metadata.uid; conflicts += 1) {
    const { name, namespace, uid, resourceVersion, finalizers = [] } = object.metadata;
    const kept = finalizers.filter((name) => name !== change.remove);
    const wanted = change.add === undefined || kept.includes(change.add) ? kept : [...kept, change.add];
    if (wanted.length === finalizers.length && wanted.every((name) => finalizers.includes(name)))
      return object;
    try {
      const body = { metadata: { uid, resourceVersion, finalizers: wanted } };
      const place = { resource, namespace };
      return (await write(place, { ...options, isRepeatable: false }, (objects) =>
        objects.merge(name, body),
      )) as T;
    } catch (error) {
      if (isKubeError(error, 404)) return undefined;
      if (!isKubeError(error, 409) || conflicts === CONFLICTS_MAX) throw error;
      object = await client.get<T>(resource, object.metadata, options);
    }
  }
  return undefined;
}

export function typeOf(resource: KubeResource): { readonly apiVersion: string; readonly kind: string } {
  return { apiVersion: apiVersionOf(resource), kind: resource.kind };
}

export function managed({ fieldManager }: ApplyOptions) {
  return { fieldManager, force: true } as const;
}
