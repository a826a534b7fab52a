import { setTimeout as sleep } from 'node:timers/promises';

/** Called between two pieces of work: resolves, now and then after a pause, when the next one may be done. */
export type Pauses = () => Promise<void> | undefined;

/**
 * Has long work of a request leave the event loop to others: after each `workMs` of it for `restFor` times as long as it took.
 * @param now Milliseconds of a clock that never goes back.
 */
export function createPauses(
  workMs: number,
  restFor: number,
  { now = () => performance.now(), wait = (ms: number): Promise<unknown> => sleep(ms) } = {},
): Pauses {
  let begunAt = now();
  return () => {
    const worked = now() - begunAt;
    if (worked < workMs) return undefined;
    return wait(worked * restFor).then(() => {
      begunAt = now();
    });
  };
}
