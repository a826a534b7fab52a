import type { KubeClient } from '../kube/kube-client.ts';
import { notLeading } from '../kube/kube-error.ts';

/**
 * Wraps the client of a leader: every write is refused from the moment its lease time is over. Checked right before each
 * attempt, including retries, so that a process that was suspended in the middle of a pass or of a write writes nothing
 * when it resumes, even before it learns that it lost the lease.
 */
export function fenceWrites(client: KubeClient, isLeading: () => boolean): KubeClient {
  const fenced = <Write extends (...args: never[]) => Promise<unknown>>(write: Write): Write => {
    const guarded = (...args: Parameters<Write>): Promise<unknown> => {
      if (!isLeading()) return Promise.reject(notLeading());
      // The last argument of every call is its options.
      const given: readonly unknown[] = args;
      const call = { ...(given.at(-1) as object), mayWrite: isLeading };
      return write(...([...given.slice(0, -1), call] as Parameters<Write>));
    };
    return guarded as Write;
  };
  return {
    ...client,
    create: fenced(client.create),
    replace: fenced(client.replace),
    apply: fenced(client.apply),
    applyStatus: fenced(client.applyStatus),
    patchFinalizers: fenced(client.patchFinalizers),
  };
}
