import { LRUCache } from 'lru-cache';
import type { DelayedMessage } from '#core/store/sending/waiting-messages.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { Lane } from '#core/store/sending/lane.ts';
import type { WhyClosed } from './closed-accounts.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { DueLooks } from './due-looks.ts';
import { laneKey } from './lanes.ts';
import type { ResolveWaiting } from './resolve-waiting.ts';
import { takeTurns } from './take-turns.ts';

export type DelayedMovesDeps = {
  readonly store: Pick<WorkerStore, 'delayedLanes' | 'findDelayed' | 'findWaiting'>;
  readonly dueFrom: DueLooks['dueFrom'];
  readonly whyClosed: WhyClosed;
  readonly resolve: ResolveWaiting;
  readonly mark: Dispatcher['mark'];
  readonly isStopping: () => boolean;
};

/** Moves messages that wait for an account that cannot be called to the next account, if their route limits the wait. */
export type DelayedMoves = {
  /** Adds a lane in which something is due and that is not being claimed. */
  add(lane: Lane): void;
  /**
   * Moves messages that have waited too long, a page of each lane in turn, as long as a page moves any. Messages that must stay,
   * because their sender named the account or no other one can be called, are passed once per look and hide nothing behind them.
   * @throws the first failure, after all other lanes had their turn; the failed lane is left to the next `add`.
   */
  run(): Promise<void>;
};

const MOVED_AT_ONCE = 500;
/** The most lanes whose position is remembered; the look at any other lane starts from its beginning. */
const POSITIONS_MAX = 10_000;

export function createDelayedMoves(deps: DelayedMovesDeps): DelayedMoves {
  const { store, dueFrom, whyClosed, resolve, mark, isStopping } = deps;
  const added = new Map<string, Lane>();
  const positions = new LRUCache<string, DelayedMessage>({ max: POSITIONS_MAX });

  /** Moves one page. @returns whether the lane may hold more to move. */
  async function moveSome(lane: Lane): Promise<boolean> {
    const key = laneKey(lane);
    const after = positions.get(key);
    const page = await store.findDelayed({ ...lane, dueFrom: dueFrom(lane) }, MOVED_AT_ONCE, after);
    const last = page.length < MOVED_AT_ONCE ? undefined : page.at(-1);
    if (last === undefined) positions.delete(key);
    else positions.set(key, last);
    const movable = page.flatMap(({ seq, isMovable }) => (isMovable ? [seq] : []));
    if (movable.length === 0) return false;
    const rows = await store.findWaiting(movable);
    const { lanes, moved } = await resolve(rows, whyClosed);
    for (const one of lanes) mark(one);
    return last !== undefined && moved > 0;
  }

  return {
    add: (lane) => void added.set(laneKey(lane), lane),
    async run() {
      const given = [...added.values()];
      added.clear();
      if (given.length === 0) return;
      const open = new Map((await store.delayedLanes(given)).map((lane) => [laneKey(lane), lane]));
      await takeTurns(open, {
        work: moveSome,
        again: (lane) => void open.set(laneKey(lane), lane),
        isStopping,
      });
    },
  };
}
