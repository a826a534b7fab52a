import { isDeepStrictEqual } from 'node:util';
import type { KubeObject } from './kube/kube-object.ts';

/**
 * Whether a change of an object asks for a pass. A status does not: it is our own word, and somebody else's edit of it is
 * set right at the next regular look.
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
