import { setTimeout as sleep } from 'node:timers/promises';

/** Called between two units of work: resolves when the next unit may start, sometimes after a pause. */
export type Pauses = () => Promise<void> | undefined;

/** Makes long work of a request yield the event loop: after each `workMs` of work it pauses for `restFor` times as long. */
export function createPauses(
  workMs: number,
  restFor: number,
  { monotonicMs = () => performance.now(), wait = (ms: number): Promise<unknown> => sleep(ms) } = {},
): Pauses {
  let begunAt = monotonicMs();
  return () => {
    const worked = monotonicMs() - begunAt;
    if (worked < workMs) return undefined;
    return wait(worked * restFor).then(() => {
      begunAt = monotonicMs();
    });
  };
}

/** Does the work for each item, with pauses between the items. */
export async function forEachPausing<Item>(
  items: Iterable<Item>,
  pause: Pauses,
  work: (item: Item) => void,
): Promise<void> {
  for (const item of items) {
    const resting = pause();
    if (resting !== undefined) await resting;
    work(item);
  }
}
