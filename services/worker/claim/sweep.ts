import type { SweepTask } from '#core/store/sending/lane.ts';
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

export type SweepDeps = {
  readonly looks: Pick<DueLooks, 'dueLanes' | 'lookedAt'>;
  readonly dispatcher: Pick<Dispatcher, 'mark' | 'isOpen' | 'whyClosed'>;
  /** Gets suspended and resumed tenants. */
  readonly moves: Pick<TenantMoves, 'add'>;
  /** Gets tenants with due scheduled messages. */
  readonly scheduled: Pick<ScheduledMoves, 'add'>;
  /** Gets due lanes whose account gate is closed. */
  readonly delayed: Pick<DelayedMoves, 'add'>;
  /** Gets lanes that are not claimed from: those of inactive tenants, and those whose gate does not open again within the second. */
  readonly closed: Pick<ClosedLanes, 'add'>;
};

/**
 * Queries all tenants for work that no wake-up announces, such as due retries and messages with a lost wake-up, marks the due lanes
 * and passes the rest on.
 */
export async function sweep(deps: SweepDeps): Promise<Overdue> {
  const { looks, scheduled, closed, moves } = deps;
  // Tests break this (mutant: sweep): due messages are found without their wake-ups.
  const tasks = await looks.dueLanes();
  const now = looks.lookedAt();
  let oldestDue = now;
  let oldestScheduled = now;
  for (const found of tasks) {
    switch (found.task) {
      case 'due':
        takeDue(found, deps);
        if (isLate(found, deps)) oldestDue = Math.min(oldestDue, found.oldestDue.getTime());
        break;
      case 'queue':
        scheduled.add(found.tenantId, found.oldestDue);
        oldestScheduled = Math.min(oldestScheduled, found.oldestDue.getTime());
        break;
      case 'review':
        closed.add(found);
        break;
      case 'hold':
      case 'release':
        moves.add(found.tenantId);
        break;
    }
  }
  return {
    oldestDueSeconds: (now - Math.min(oldestDue, oldestScheduled)) / 1_000,
    oldestScheduledSeconds: (now - oldestScheduled) / 1_000,
  };
}

type FoundLane = Extract<SweepTask, { task: 'due' }>;

function takeDue(lane: FoundLane, { dispatcher, delayed, closed }: SweepDeps): void {
  const why = dispatcher.whyClosed(lane.accountId);
  if (why !== undefined) delayed.add(lane);
  if (why !== 'rate_used_up' && !dispatcher.isOpen(lane.accountId)) closed.add(lane);
  dispatcher.mark(lane, { swept: true });
}

/** A message that waits for its account gate, or for its turn in a slowed channel, is not late. */
function isLate({ accountId, isSlowed }: FoundLane, { dispatcher }: SweepDeps): boolean {
  return !isSlowed && dispatcher.isOpen(accountId);
}
