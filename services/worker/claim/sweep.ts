import type { DeliveryStore } from '#core/store/deliveries.ts';
import type { Dispatcher } from './dispatcher.ts';

const MOVED_AT_ONCE = 500;

/**
 * One look over all tenants for what no wake-up will bring: timers that ran out, wake-ups that were lost, tenants that
 * were suspended or resumed.
 * @returns how long the longest due message waits that could be sent now, in seconds.
 */
export async function sweep(
  store: Pick<DeliveryStore, 'dueLanes' | 'holdTenant' | 'releaseTenant'>,
  dispatcher: Pick<Dispatcher, 'mark' | 'isOpen'>,
  now: number,
): Promise<number> {
  const found = await store.dueLanes();
  let oldest = now;
  for (const lane of found) {
    if (lane.task !== 'due') continue;
    dispatcher.mark(lane, { swept: true });
    if (dispatcher.isOpen(lane.accountId)) oldest = Math.min(oldest, lane.oldestDue.getTime());
  }
  for (const { task, tenantId } of found) {
    if (task === 'hold') await holdAll(store, tenantId);
    if (task === 'release') await releaseAll(store, tenantId);
  }
  // What was given back is due now.
  if (found.some(({ task }) => task === 'release')) await sweep(store, dispatcher, now);
  return (now - oldest) / 1_000;
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
