import { isDeepStrictEqual } from 'node:util';
import type { KubeObject } from '../kube/kube-object.ts';

/**
 * Returns whether a change of an object requires a pass. A status change does not: only we write our part of the status, and an
 * edit by someone else is corrected at the next resync.
 */
export function shouldReconcile(before: KubeObject, after: KubeObject): boolean {
  const [was, is] = [before.metadata, after.metadata];
  return (
    was.generation !== is.generation ||
    was.deletionTimestamp !== is.deletionTimestamp ||
    !isDeepStrictEqual(was.annotations, is.annotations) ||
    !isDeepStrictEqual(was.finalizers, is.finalizers)
  );
}
