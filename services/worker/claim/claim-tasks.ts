import { HOUR_MS } from '#core/domain/text/duration.ts';
import type { FairQueue } from '#core/domain/queue/fair-queue.ts';
import type { Wake } from '#core/domain/queue/wake.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import type { Task } from '../tasks.ts';
import type { ClosedLanes } from './closed-lanes.ts';
import type { DelayedMoves } from './delayed-moves.ts';
import type { Dispatcher } from './dispatcher.ts';
import type { DueLooks } from './due-looks.ts';
import { refreshPolicies } from './refresh-policies.ts';
import type { ScheduledMoves } from './scheduled-moves.ts';
import { sweep, type Overdue, type SweepDeps } from './sweep.ts';
import type { TenantMoves } from './tenant-moves.ts';

/** Tasks that run the work which a sweep finds. */
type FoundTaskName = 'tenant_moves' | 'delayed_moves' | 'closed_lanes' | 'scheduled_moves';
export type ClaimTaskName = 'sweep' | FoundTaskName | 'policies';

export type ClaimTasksDeps = {
  readonly store: Pick<WorkerStore, 'tenantLimits'>;
  readonly queue: FairQueue<Wake>;
  readonly looks: DueLooks;
  readonly dispatcher: Dispatcher;
  readonly moves: TenantMoves;
  readonly scheduled: ScheduledMoves;
  readonly delayed: DelayedMoves;
  readonly closed: ClosedLanes;
  readonly sweepMs: number;
  readonly onSwept: (overdue: Overdue) => void;
  readonly wake: (task: FoundTaskName) => void;
};

export function claimTasks({
  store,
  queue,
  looks,
  dispatcher,
  moves,
  scheduled,
  delayed,
  closed,
  sweepMs,
  onSwept,
  wake,
}: ClaimTasksDeps): Record<ClaimTaskName, Task> {
  const swept: SweepDeps = { looks, dispatcher, moves, scheduled, delayed, closed };
  return {
    sweep: {
      everyMs: sweepMs,
      async work() {
        onSwept(await sweep(swept));
        wake('tenant_moves');
        wake('delayed_moves');
        wake('closed_lanes');
        wake('scheduled_moves');
      },
    },
    tenant_moves: { everyMs: HOUR_MS, work: moves.run },
    delayed_moves: { everyMs: HOUR_MS, work: delayed.run },
    closed_lanes: { everyMs: HOUR_MS, work: closed.run },
    scheduled_moves: { everyMs: HOUR_MS, work: scheduled.run },
    policies: { everyMs: 2_000, work: () => refreshPolicies(store, queue) },
  };
}
