import { createTurnQueue } from '#core/domain/queue/turn-queue.ts';
import type { Pauses } from './pauses.ts';

/** Longest time for which long work occupies the event loop before everything else that waits in it gets a turn. */
const TURN_MS = 5;

export type SharedPauses = {
  /** Returns the pauses of one request; there is one before its first unit of work too. @param owner Its tenant, for example. */
  readonly of: (owner: string) => Pauses;
};

/**
 * Makes long work of requests take turns: in each turn of the event loop one request works, for at most `TURN_MS`, however many
 * have work left. Owners take turns too, so that many requests of one delay no other owner's request by more than one turn.
 * @param next Calls back in the next turn of the event loop.
 */
export function createSharedPauses({
  monotonicMs = () => performance.now(),
  next = (work: () => void): unknown => setImmediate(work),
} = {}): SharedPauses {
  const waiting = createTurnQueue<() => void>();
  let isNext = false;

  function schedule(): void {
    if (isNext || waiting.size === 0) return;
    isNext = true;
    next(() => {
      isNext = false;
      for (const goOn of waiting.take(1)) goOn();
      schedule();
    });
  }

  return {
    of(owner) {
      let endsAt = Number.NEGATIVE_INFINITY;
      return () => {
        if (monotonicMs() < endsAt) return undefined;
        return new Promise<void>((resolve) => {
          waiting.push(owner, () => {
            endsAt = monotonicMs() + TURN_MS;
            resolve();
          });
          schedule();
        });
      };
    },
  };
}
