import type { KubeClient } from '#core/platform/kube-client.ts';
import { KubeError } from '#core/platform/kube-error.ts';

/**
 * The client of a leader: every write is refused from the moment its time is over. Asked right before each one, so that a
 * process that was stopped in the middle of a pass writes nothing when it goes on, before it was told anything.
 */
export function fenceWrites(client: KubeClient, isLeading: () => boolean): KubeClient {
  const fenced = <Write extends (...args: never[]) => Promise<unknown>>(write: Write): Write => {
    const guarded = (...args: Parameters<Write>): Promise<unknown> =>
      isLeading()
        ? write(...args)
        : Promise.reject(
            new KubeError({ code: 0, reason: 'NotLeading', message: 'This process leads no longer' }),
          );
    return guarded as Write;
  };
  return {
    ...client,
    create: fenced(client.create),
    replace: fenced(client.replace),
    apply: fenced(client.apply),
    applyStatus: fenced(client.applyStatus),
    patchFinalizers: fenced(client.patchFinalizers),
    delete: fenced(client.delete),
  };
}
