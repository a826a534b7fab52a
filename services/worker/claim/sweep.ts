import type { SweepTask } from '#core/store/deliveries.ts';
import type { DelayedMoves } from './delayed-moves.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { DueLooks } from './due-looks.ts';
import type { ScheduledMoves } from './scheduled-moves.ts';
import type { TenantMoves } from './tenant-moves.ts';

/** How far behind the workers are, in seconds. */
export type Overdue = {
  /** Since when the message that waits longest could have been sent. */
  readonly oldestDueSeconds: number;
  /** Since when the oldest scheduled message should have been queued; 0 where none is late. */
  readonly oldestScheduledSeconds: number;
};

/**
 * Queries all tenants for what no wake-up brings: retries that are due, messages whose wake-up was lost, those that were
 * scheduled for now, which `scheduled` is told of, tenants that were suspended or resumed, which `moves` is told of, and what
 * waits for an account that cannot be called, which `delayed` is told of.
 */
export async function sweep(
  looks: Pick<DueLooks, 'dueLanes'>,
  dispatcher: Pick<Dispatcher, 'mark' | 'isOpen' | 'whyClosed'>,
  moves: Pick<TenantMoves, 'add'>,
  scheduled: Pick<ScheduledMoves, 'add'>,
  delayed: Pick<DelayedMoves, 'add'>,
  now: number,
): Promise<Overdue> {
  // Tests break this (mutant: sweep): due messages are found without their wake-ups.
  const found = await looks.dueLanes();
  for (const one of found) {
    if (one.task === 'queue') scheduled.add(one.tenantId, one.oldestDue);
    else if (one.task !== 'due') moves.add(one.tenantId);
    else if (dispatcher.whyClosed(one.accountId) !== undefined) delayed.add(one);
  }
  const queueing = oldestScheduled(found, now);
  const oldest = Math.min(queueing, markDue(found, dispatcher, now));
  return {
    oldestDueSeconds: (now - oldest) / 1_000,
    oldestScheduledSeconds: (now - queueing) / 1_000,
  };
}

/** @returns the earliest instant of what is scheduled and due, in ms since the epoch; `now` where nothing is. */
function oldestScheduled(found: readonly SweepTask[], now: number): number {
  return Math.min(now, ...found.flatMap((one) => (one.task === 'queue' ? [one.oldestDue.getTime()] : [])));
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
    // A message that waits for its account to open, or its turn in a slowed channel, is not late.
    if (!lane.isSlowed && dispatcher.isOpen(lane.accountId))
      oldest = Math.min(oldest, lane.oldestDue.getTime());
  }
  return oldest;
}
