import { createTurnQueue } from '#core/domain/queue/turn-queue.ts';

/** Limits concurrent work that needs much memory and time; owners take turns round-robin. */
export type Turns = {
  /** Resolves when the owner's turn begins, to the function that ends it; call that once. */
  readonly take: (owner: string, bytes: number) => Promise<() => void>;
};

type Waiting = { readonly bytes: number; readonly enter: () => void };

/**
 * The start of a turn keeps the process busy. Before the next turn begins, other work gets as much time as that took, so
 * turns use at most half of the process.
 * @param bytesMax Total of all concurrent turns; a larger one runs alone.
 */
export function createTurns(bytesMax: number): Turns {
  const line = createTurnQueue<Waiting>();
  /** The next turn once there is room: smaller ones do not overtake it. */
  let next: Waiting | undefined;
  const room = { taken: 0 };
  let restUntil = 0;
  let resting: NodeJS.Timeout | undefined;

  function rest(begunAt: number): void {
    const now = performance.now();
    restUntil = now + (now - begunAt);
  }

  function admit(): void {
    const now = performance.now();
    if (now < restUntil) {
      resting ??= setTimeout(() => {
        resting = undefined;
        admit();
      }, restUntil - now);
      return;
    }
    while (room.taken < bytesMax) {
      next ??= line.take(1)[0];
      if (next === undefined || (room.taken > 0 && room.taken + next.bytes > bytesMax)) return;
      const { enter } = next;
      next = undefined;
      enter();
      setImmediate(rest, now);
    }
  }

  return {
    take: (owner, bytes) =>
      new Promise((resolve) => {
        line.push(owner, {
          bytes,
          enter() {
            room.taken += bytes;
            resolve(() => {
              room.taken -= bytes;
              admit();
            });
          },
        });
        admit();
      }),
  };
}
