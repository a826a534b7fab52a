/** A purge that does not use its turn for this time, for example because its resource is paused, loses it to the next in line. */
const UNUSED_MS = 10_000;

/** One turn at a time, in the order of the requests. Purges are identified by the UID of their owner. */
export type PurgeTurns = {
  /** Whether the purge is in line and the turn is not its own. */
  readonly isWaiting: (uid: string) => boolean;
  /** Takes the turn; or returns false, joins the line, and calls `wake` when the turn has come. Call `end` after a turn. */
  readonly take: (uid: string, wake: () => void) => boolean;
  readonly end: () => void;
};

export function createPurgeTurns(): PurgeTurns {
  const line = new Map<string, () => void>();
  let isTaken = false;
  /** Whose turn comes next. A timer takes it back: no clock is read, because the wall clock may be set. */
  let next: { readonly uid: string } | undefined;

  function wakeNext(): void {
    const [first] = line;
    next = undefined;
    if (first === undefined) return;
    const [uid, wake] = first;
    line.delete(uid);
    const woken = { uid };
    next = woken;
    wake();
    setTimeout(() => {
      if (next === woken) wakeNext();
    }, UNUSED_MS).unref();
  }

  function isFreeFor(uid: string): boolean {
    return !isTaken && (next === undefined || next.uid === uid);
  }

  return {
    isWaiting: (uid) => line.has(uid) && !isFreeFor(uid),
    take(uid, wake) {
      if (!isFreeFor(uid)) {
        line.set(uid, wake);
        return false;
      }
      line.delete(uid);
      next = undefined;
      isTaken = true;
      return true;
    },
    end() {
      isTaken = false;
      wakeNext();
    },
  };
}
