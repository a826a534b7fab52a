import type { SweepTask } from '#core/store/lane.ts';
import type { ClosedLanes } from './closed-lanes.ts';
import type { DelayedMoves } from './delayed-moves.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { DueLooks } from './due-looks.ts';
import type { ScheduledMoves } from './scheduled-moves.ts';
import type { TenantMoves } from './tenant-moves.ts';

/** How late the workers are, in seconds. */
export type Overdue = {
  /** How long ago the oldest overdue message could have been sent. */
  readonly oldestDueSeconds: number;
  /** How long ago the oldest late scheduled message should have been queued; 0 if none is late. */
  readonly oldestScheduledSeconds: number;
};

/**
 * Queries all tenants for work that no wake-up announces: due retries and messages with a lost wake-up, whose lanes are marked in
 * `dispatcher`; due scheduled messages, passed to `scheduled`; suspended and resumed tenants, passed to `moves`; lanes with a
 * closed account gate, and of inactive tenants, passed to `delayed`, and to `closed` unless the gate opens for a part of every second.
 */
export async function sweep(
  looks: Pick<DueLooks, 'dueLanes'>,
  dispatcher: Pick<Dispatcher, 'mark' | 'isOpen' | 'whyClosed'>,
  moves: Pick<TenantMoves, 'add'>,
  scheduled: Pick<ScheduledMoves, 'add'>,
  delayed: Pick<DelayedMoves, 'add'>,
  closed: Pick<ClosedLanes, 'add'>,
  now: number,
): Promise<Overdue> {
  // Tests break this (mutant: sweep): due messages are found without their wake-ups.
  const found = await looks.dueLanes();
  for (const one of found) {
    if (one.task === 'queue') scheduled.add(one.tenantId, one.oldestDue);
    else if (one.task === 'review') closed.add(one);
    else if (one.task !== 'due') moves.add(one.tenantId);
    else {
      const why = dispatcher.whyClosed(one.accountId);
      if (why !== undefined) delayed.add(one);
      if (why !== 'rate_used_up' && !dispatcher.isOpen(one.accountId)) closed.add(one);
    }
  }
  const queueing = oldestScheduled(found, now);
  const oldest = Math.min(queueing, markDue(found, dispatcher, now));
  return {
    oldestDueSeconds: (now - oldest) / 1_000,
    oldestScheduledSeconds: (now - queueing) / 1_000,
  };
}

/** Returns the earliest instant of the scheduled messages that are due, in ms since the epoch; `now` if there are none. */
function oldestScheduled(found: readonly SweepTask[], now: number): number {
  return Math.min(now, ...found.flatMap((one) => (one.task === 'queue' ? [one.oldestDue.getTime()] : [])));
}

/**
 * Marks the due lanes.
 * @returns since when the oldest message has waited, in ms since the epoch.
 */
function markDue(
  found: readonly SweepTask[],
  dispatcher: Pick<Dispatcher, 'mark' | 'isOpen'>,
  now: number,
): number {
  let oldest = now;
  for (const lane of found) {
    if (lane.task !== 'due') continue;
    dispatcher.mark(lane, { swept: true });
    // A message that waits for its account gate, or for its turn in a slowed channel, is not late.
    if (!lane.isSlowed && dispatcher.isOpen(lane.accountId))
      oldest = Math.min(oldest, lane.oldestDue.getTime());
  }
  return oldest;
}
