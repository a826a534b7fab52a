import type { DeliveryStore, SweepTask } from '#core/store/deliveries.ts';
import type { Dispatcher } from './dispatcher.ts';

const MOVED_AT_ONCE = 500;

/**
 * Queries all tenants for what no wake-up brings: retries that are due, messages whose wake-up was lost, tenants that were
 * suspended or resumed.
 * @returns how long the longest due message waits that could be sent now, in seconds.
 */
export async function sweep(
  store: Pick<DeliveryStore, 'dueLanes' | 'holdTenant' | 'releaseTenant'>,
  dispatcher: Pick<Dispatcher, 'mark' | 'isOpen'>,
  now: number,
): Promise<number> {
  // Tests break this (mutant: sweep): due messages are found without their wake-ups.
  const found = await store.dueLanes();
  const oldest = markDue(found, dispatcher, now);
  let released = 0;
  for (const { task, tenantId } of found) {
    if (task === 'hold') await holdAll(store, tenantId);
    if (task === 'release') released += await releaseAll(store, tenantId);
  }
  // Released messages are due now.
  if (released > 0) markDue(await store.dueLanes(), dispatcher, now);
  return (now - oldest) / 1_000;
}

/** @returns since when the oldest of them waits, in ms since the epoch. */
function markDue(
  found: readonly SweepTask[],
  dispatcher: Pick<Dispatcher, 'mark' | 'isOpen'>,
  now: number,
): number {
  let oldest = now;
  for (const lane of found) {
    if (lane.task !== 'due') continue;
    dispatcher.mark(lane, { swept: true });
    // A message that waits for its account to open is not late.
    if (dispatcher.isOpen(lane.accountId)) oldest = Math.min(oldest, lane.oldestDue.getTime());
  }
  return oldest;
}

/** Holds all waiting messages of a suspended tenant. */
export function holdAll(store: Pick<DeliveryStore, 'holdTenant'>, tenantId: string): Promise<number> {
  return untilFewer((most) => store.holdTenant(tenantId, most));
}

/** Releases all held messages of a resumed tenant. Returns how many. */
export function releaseAll(store: Pick<DeliveryStore, 'releaseTenant'>, tenantId: string): Promise<number> {
  return untilFewer((most) => store.releaseTenant(tenantId, most));
}

async function untilFewer(move: (most: number) => Promise<number>): Promise<number> {
  let total = 0;
  for (;;) {
    const moved = await move(MOVED_AT_ONCE);
    total += moved;
    if (moved < MOVED_AT_ONCE) return total;
  }
}
