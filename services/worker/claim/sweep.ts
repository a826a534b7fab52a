import type { DeliveryStore } from '#core/store/deliveries.ts';
import type { Dispatcher } from './dispatcher.ts';

const MOVED_AT_ONCE = 500;

/**
 * One look over all tenants for what no wake-up will bring: timers that ran out, wake-ups that were lost, tenants that
 * were suspended or resumed.
 */
export async function sweep(
  store: Pick<DeliveryStore, 'dueTenants' | 'holdTenant' | 'releaseTenant'>,
  dispatcher: Pick<Dispatcher, 'markDue'>,
): Promise<void> {
  for (const { tenantId, task } of await store.dueTenants()) {
    switch (task) {
      case 'due':
        dispatcher.markDue(tenantId);
        break;
      case 'hold':
        await holdAll(store, tenantId);
        break;
      case 'release':
        await releaseAll(store, tenantId);
        dispatcher.markDue(tenantId);
        break;
    }
  }
}

/** Puts aside whatever a suspended tenant has waiting. */
export async function holdAll(store: Pick<DeliveryStore, 'holdTenant'>, tenantId: string): Promise<void> {
  while ((await store.holdTenant(tenantId, MOVED_AT_ONCE)) === MOVED_AT_ONCE);
}

/** Gives back whatever a resumed tenant has held. */
export async function releaseAll(
  store: Pick<DeliveryStore, 'releaseTenant'>,
  tenantId: string,
): Promise<void> {
  while ((await store.releaseTenant(tenantId, MOVED_AT_ONCE)) === MOVED_AT_ONCE);
}
