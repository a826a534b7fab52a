import { createTurnQueue } from '#core/domain/queue/turn-queue.ts';
import { abandoned } from '../errors.ts';
import { mayWait } from './may-wait.ts';
import { noRoom } from './no-room.ts';

export type SharedSlots = {
  /**
   * Resolves when a slot is available for this owner, to the function that releases it; that may be called more than once.
   * @param gone Aborts when the caller no longer waits.
   * @throws AppError `dependency_unavailable` when too many wait already, or after `waitMsMax`.
   */
  readonly take: (owner: string, gone: AbortSignal) => Promise<() => void>;
};

export type SharedSlotsOptions = {
  /** At least 1. */
  readonly slots: number;
  /** Default: half of the slots, and at least one. */
  readonly heldPerOwnerMax?: number;
  readonly waitingPerOwnerMax: number;
  /** Across all owners. No owner waits in more places than remain free. */
  readonly waitingMax: number;
  readonly waitMsMax: number;
};

/**
 * Runs work in a slot of its owner.
 * @throws AppError `dependency_unavailable` without a slot; any error of `work`.
 */
export async function inSlot<T>(
  slots: SharedSlots,
  owner: string,
  work: () => Promise<T>,
  gone: AbortSignal = NEVER,
): Promise<T> {
  const leave = await slots.take(owner, gone);
  try {
    return await work();
  } finally {
    leave();
  }
}

/** For callers that wait even if their client has gone. */
const NEVER = new AbortController().signal;

type Share = { held: number; waiting: number };
/** Takes the slot unless the caller no longer waits. */
type Enter = () => void;

/** Shares a few slots among owners: no owner holds more than its share, and waiting owners are served round-robin. */
export function createSharedSlots(options: SharedSlotsOptions): SharedSlots {
  const { slots, waitMsMax } = options;
  const room = { perOwnerMax: options.waitingPerOwnerMax, placesMax: options.waitingMax };
  const heldMax = options.heldPerOwnerMax ?? Math.max(1, Math.floor(slots / 2));
  const shares = new Map<string, Share>();
  const line = createTurnQueue<Enter>();
  const all = { free: slots, waiting: 0 };

  function shareOf(owner: string): Share {
    let share = shares.get(owner);
    if (share === undefined) {
      share = { held: 0, waiting: 0 };
      shares.set(owner, share);
    }
    return share;
  }

  function admit(): void {
    while (all.free > 0) {
      const [enter] = line.take(1, (owner) => shareOf(owner).held < heldMax);
      if (enter === undefined) return;
      enter();
    }
  }

  function forgetIdle(owner: string, share: Share): void {
    if (share.held === 0 && share.waiting === 0) shares.delete(owner);
  }

  function hold(owner: string, share: Share): () => void {
    all.free -= 1;
    share.held += 1;
    let isOver = false;
    return () => {
      if (isOver) return;
      isOver = true;
      all.free += 1;
      share.held -= 1;
      admit();
      forgetIdle(owner, share);
    };
  }

  return {
    take(owner, gone) {
      if (gone.aborted) return Promise.reject(abandoned());
      const share = shareOf(owner);
      if (!mayWait(room, share.waiting, all.waiting)) {
        forgetIdle(owner, share);
        return Promise.reject(noRoom());
      }
      return new Promise((resolve, reject) => {
        let isOver = false;
        const settle = (): boolean => {
          if (isOver) return false;
          isOver = true;
          all.waiting -= 1;
          share.waiting -= 1;
          clearTimeout(timer);
          gone.removeEventListener('abort', leave);
          return true;
        };
        const giveUp = (error: Error): void => {
          if (!settle()) return;
          forgetIdle(owner, share);
          reject(error);
        };
        const leave = (): void => giveUp(abandoned());
        const timer = setTimeout(() => giveUp(noRoom()), waitMsMax);
        gone.addEventListener('abort', leave);
        all.waiting += 1;
        share.waiting += 1;
        line.push(owner, () => {
          if (settle()) resolve(hold(owner, share));
        });
        admit();
      });
    },
  };
}
