import type { WorkerStore } from '#core/store/worker-store.ts';
import { takeTurns } from './take-turns.ts';

export type TenantMovesDeps = {
  /** Both functions do nothing unless the tenant's own row requires the move. */
  readonly store: Pick<WorkerStore, 'holdTenant' | 'releaseTenant'>;
  /** Called when held messages are due again. */
  readonly onReleased: () => void;
  readonly isStopping: () => boolean;
};

/** Holds the waiting messages of suspended tenants and stopped channels, and releases them when they may be sent again. */
export type TenantMoves = {
  /** Notes that messages of the tenant may have to be moved. */
  add(tenantId: string): void;
  /**
   * Moves all messages that must be moved, a batch of each tenant in turn: a large backlog blocks neither other tenants nor the
   * sweep.
   * @throws the first failure, after all other tenants had their turn; a failed tenant waits for the next `add`.
   */
  run(): Promise<void>;
};

const MOVED_AT_ONCE = 500;

export function createTenantMoves({ store, onReleased, isStopping }: TenantMovesDeps): TenantMoves {
  const waiting = new Map<string, string>();
  const add = (tenantId: string): void => void waiting.set(tenantId, tenantId);

  /**
   * Moves one batch of the tenant's messages.
   * @returns whether there may be more to move.
   */
  async function moveSome(tenantId: string): Promise<boolean> {
    const held = await store.holdTenant(tenantId, MOVED_AT_ONCE);
    const released = await store.releaseTenant(tenantId, MOVED_AT_ONCE);
    if (released > 0) onReleased();
    return held === MOVED_AT_ONCE || released === MOVED_AT_ONCE;
  }

  return {
    add,
    run: () => takeTurns(waiting, { work: moveSome, again: add, isStopping }),
  };
}
