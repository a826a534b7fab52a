import type { KubeObject } from '../kube/kube-object.ts';

/** Longer values of annotations are dropped with their names: none that we read is as long. */
const ANNOTATION_CHARS_MAX = 64;

/**
 * Returns the object without the metadata that nothing reads: managed fields are half of an ordinary object's size, and labels and
 * annotations may have more than a megabyte, while all objects of a cache share one process's memory.
 * @param annotations names of those to keep.
 */
export function slimObject<T extends KubeObject>(object: T, annotations: readonly string[]): T {
  const { metadata } = object;
  const { name, namespace, uid, resourceVersion, generation } = metadata;
  const { creationTimestamp, deletionTimestamp, finalizers } = metadata;
  const kept = annotations.flatMap((annotation) => {
    const value = metadata.annotations?.[annotation];
    return value === undefined || value.length > ANNOTATION_CHARS_MAX ? [] : [[annotation, value] as const];
  });
  const given = {
    namespace,
    generation,
    creationTimestamp,
    deletionTimestamp,
    finalizers,
    annotations: kept.length === 0 ? undefined : Object.fromEntries(kept),
  };
  const present = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
  return { ...object, metadata: { name, uid, resourceVersion, ...present } };
}
