import { createTurnQueue } from '#core/domain/turn-queue.ts';

/** Lets few do at a time what takes much memory and time: one of each owner in turn. */
export type Turns = {
  /** Resolves when it is one's turn, with what ends it; to be called once. */
  readonly take: (owner: string, bytes: number) => Promise<() => void>;
};

type Waiting = { readonly bytes: number; readonly enter: () => void };

/**
 * Whoever begins keeps the process busy at first. As much time as that took belongs to everybody else before the next
 * one begins, so that turns take half of a process at most.
 * @param bytesMax Of all turns at once; what is larger has one alone.
 */
export function createTurns(bytesMax: number): Turns {
  const line = createTurnQueue<Waiting>();
  /** Whose turn it is as soon as there is room: it is not passed over for smaller ones. */
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
