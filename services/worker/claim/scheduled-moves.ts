import type { DeliveryStore } from '#core/store/deliveries.ts';
import type { Dispatcher } from './dispatcher.ts';
import { resolveWaiting, type ResolveDeps } from './resolve-waiting.ts';
import { takeTurns } from './take-turns.ts';

export type ScheduledMovesDeps = {
  readonly store: ResolveDeps['store'] & Pick<DeliveryStore, 'findScheduledDue'>;
  readonly mark: Dispatcher['mark'];
  readonly endedUncalled: ResolveDeps['endedUncalled'];
  readonly failedOver: ResolveDeps['failedOver'];
  readonly isStopping: () => boolean;
};

/** Moves scheduled messages into their queues when their instant has come. */
export type ScheduledMoves = {
  /** Something that the tenant has scheduled is due, the first of it since `oldestDue`. */
  add(tenantId: string, oldestDue: Date): void;
  /**
   * Moves all that is due, a batch of each tenant in turn: a million messages of one that are due at the same instant hold
   * up nobody else's, and no transaction is longer than a batch.
   * @throws the first failure, after all others had their turn; the tenant is left to the next `add`.
   */
  run(): Promise<void>;
};

const MOVED_AT_ONCE = 500;

/** Since when something of a tenant is due. */
type Due = { readonly tenantId: string; readonly dueFrom: Date };

export function createScheduledMoves(deps: ScheduledMovesDeps): ScheduledMoves {
  const { store, mark, endedUncalled, failedOver, isStopping } = deps;
  const waiting = new Map<string, Due>();

  /** @returns whether there may be more to move. */
  async function moveSome({ tenantId, dueFrom }: Due): Promise<boolean> {
    const rows = await store.findScheduledDue(tenantId, MOVED_AT_ONCE, dueFrom);
    const { lanes, moved } = await resolveWaiting(rows, { store, endedUncalled, failedOver });
    for (const lane of lanes) mark(lane);
    // Where nothing was moved another worker is at it.
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
