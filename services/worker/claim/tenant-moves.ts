import type { DeliveryStore } from '#core/store/deliveries.ts';
import { takeTurns } from './take-turns.ts';

export type TenantMovesDeps = {
  /** Both do nothing unless the tenant's own row says so. */
  readonly store: Pick<DeliveryStore, 'holdTenant' | 'releaseTenant'>;
  /** Messages that were held are due again. */
  readonly onReleased: () => void;
  readonly isStopping: () => boolean;
};

/** Puts aside what suspended tenants and held channels have waiting, and gives it back when they may send again. */
export type TenantMoves = {
  /** Something of the tenant's may have to be moved. */
  add(tenantId: string): void;
  /**
   * Moves all that there is, a batch of each tenant in turn: one with a large backlog holds up no other one, nor the sweep.
   * @throws the first failure, after all others had their turn; the tenant is left to the next `add`.
   */
  run(): Promise<void>;
};

const MOVED_AT_ONCE = 500;

export function createTenantMoves({ store, onReleased, isStopping }: TenantMovesDeps): TenantMoves {
  const waiting = new Map<string, string>();
  const add = (tenantId: string): void => void waiting.set(tenantId, tenantId);

  /** @returns whether there may be more to move. */
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
