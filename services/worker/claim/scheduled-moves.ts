import type { WorkerStore } from '#core/store/worker-store.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { ResolveWaiting } from './resolve-waiting.ts';
import { takeTurns } from './take-turns.ts';

export type ScheduledMovesDeps = {
  readonly store: Pick<WorkerStore, 'findScheduledDue'>;
  readonly resolve: ResolveWaiting;
  readonly mark: Dispatcher['mark'];
  readonly isStopping: () => boolean;
};

/** Moves scheduled messages into their queues when their time has come. */
export type ScheduledMoves = {
  /** Adds a tenant with due scheduled messages, the first of them due since `oldestDue`. */
  add(tenantId: string, oldestDue: Date): void;
  /**
   * Moves everything that is due, one batch of each tenant in turn: a million messages of one tenant that are due at the same
   * instant do not delay other tenants, and no transaction is longer than a batch.
   * @throws the first failure, after all other tenants had their turn; the failed tenant is left to the next `add`.
   */
  run(): Promise<void>;
};

const MOVED_AT_ONCE = 500;

/** A tenant, and since when its first message is due. */
type Due = { readonly tenantId: string; readonly dueFrom: Date };

export function createScheduledMoves(deps: ScheduledMovesDeps): ScheduledMoves {
  const { store, resolve, mark, isStopping } = deps;
  const waiting = new Map<string, Due>();

  /** Moves one batch. @returns whether there may be more to move. */
  async function moveSome({ tenantId, dueFrom }: Due): Promise<boolean> {
    const rows = await store.findScheduledDue(tenantId, MOVED_AT_ONCE, dueFrom);
    const { lanes, moved } = await resolve(rows);
    for (const lane of lanes) mark(lane);
    // If nothing was moved, another worker is moving these messages.
    return rows.length === MOVED_AT_ONCE && moved > 0;
  }

  function add(due: Due): void {
    const known = waiting.get(due.tenantId);
    waiting.set(due.tenantId, known === undefined || due.dueFrom < known.dueFrom ? due : known);
  }

  return {
    add: (tenantId, oldestDue) => add({ tenantId, dueFrom: oldestDue }),
    run: () => takeTurns(waiting, { work: moveSome, again: add, isStopping }),
  };
}
