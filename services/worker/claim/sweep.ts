import type { SweepTask } from '#core/store/deliveries.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { DueLooks } from './due-looks.ts';
import type { ScheduledMoves } from './scheduled-moves.ts';
import type { TenantMoves } from './tenant-moves.ts';

/**
 * Queries all tenants for what no wake-up brings: retries that are due, messages whose wake-up was lost, those that were
 * scheduled for now, which `scheduled` is told of, and tenants that were suspended or resumed, which `moves` is told of.
 * @returns how long the longest due message waits that could be sent now, in seconds.
 */
export async function sweep(
  looks: Pick<DueLooks, 'dueLanes'>,
  dispatcher: Pick<Dispatcher, 'mark' | 'isOpen'>,
  moves: Pick<TenantMoves, 'add'>,
  scheduled: Pick<ScheduledMoves, 'add'>,
  now: number,
): Promise<number> {
  // Tests break this (mutant: sweep): due messages are found without their wake-ups.
  const found = await looks.dueLanes();
  for (const { task, tenantId } of found) {
    if (task === 'queue') scheduled.add(tenantId);
    else if (task !== 'due') moves.add(tenantId);
  }
  return (now - markDue(found, dispatcher, now)) / 1_000;
}

/** @returns since when the oldest of them waits, in ms since the epoch. */
function markDue(
  found: readonly SweepTask[],
  dispatcher: Pick<Dispatcher, 'mark' | 'isOpen'>,
  now: number,
): number {
  let oldest = now;
  for (const lane of found) {
    if (lane.task === 'queue') oldest = Math.min(oldest, lane.oldestDue.getTime());
    if (lane.task !== 'due') continue;
    dispatcher.mark(lane, { swept: true });
    // A message that waits for its account to open is not late.
    if (dispatcher.isOpen(lane.accountId)) oldest = Math.min(oldest, lane.oldestDue.getTime());
  }
  return oldest;
}
