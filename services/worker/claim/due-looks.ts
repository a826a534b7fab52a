import type { MonotonicClock } from '#core/domain/clock.ts';
import { createDutyCycle } from '#core/domain/queue/duty-cycle.ts';
import {
  SCHEDULED_PRIORITY,
  type DueFrom,
  type DueRow,
  type Lane,
  type SweepTask,
} from '#core/store/sending/lane.ts';
import type { WorkerStore } from '#core/store/worker-store.ts';
import { laneKey } from './lanes.ts';

/** Queries for lanes with due messages, and remembers since when each has one. */
export type DueLooks = {
  dueLanes(): Promise<SweepTask[]>;
  /** Returns when the last look was, by the database's clock, in ms since the epoch: this process's clock may be wrong. */
  lookedAt(): number;
  /**
   * Returns instants before which no message of the lane is due, by priority, as of the last look; undefined before the first
   * look.
   */
  dueFrom(lane: Lane): DueFrom | undefined;
};

export type DueLooksDeps = {
  readonly store: Pick<WorkerStore, 'dueLanes'>;
  readonly monotonicMs: MonotonicClock;
};

/**
 * A message that is committed more than this after its instant was read is found only by a full look, unless its wake-up arrives.
 */
const LATE_COMMIT_MS = 5_000;

/** `dueFrom`: first by priority, then by the priority of scheduled messages. */
type LookedLane = Lane & {
  readonly isActive: boolean;
  readonly isSlowed: boolean;
  readonly dueFrom: (number | null)[];
};

export function createDueLooks({ store, monotonicMs }: DueLooksDeps): DueLooks {
  /** When the last look was, by the database's clock, in ms since the epoch; undefined before the first one. */
  let lookedAt: number | undefined;
  let lanes = new Map<string, LookedLane>();
  /** Full looks cost little, except beside an old snapshot, when a scan passes every message that was sent since it (ADR 25). */
  const full = createDutyCycle(monotonicMs);

  const lookedAfter = (): number | undefined =>
    lookedAt === undefined ? undefined : lookedAt - LATE_COMMIT_MS;

  async function lookAtAll(): Promise<DueRow[]> {
    full.begun();
    try {
      return await store.dueLanes();
    } finally {
      full.ended();
    }
  }

  function lookAfter(instant: number): Promise<DueRow[]> {
    const isOlder = ({ dueFrom }: LookedLane): boolean => dueFrom.some((at) => at !== null && at < instant);
    const older = [...lanes.values()].filter(isOlder).map(({ tenantId, accountId, dueFrom }) => ({
      tenantId,
      accountId,
      dueFrom: dueFrom.map((at) => at ?? instant),
    }));
    return store.dueLanes({ after: new Date(instant), older });
  }

  return {
    async dueLanes() {
      const after = lookedAfter();
      const rows = await (after === undefined || full.isDue() ? lookAtAll() : lookAfter(after));
      lanes = lanesOf(rows);
      const looked = rows.find(({ task }) => task === 'looked');
      if (looked?.task === 'looked') lookedAt = looked.dueAt.getTime();
      return tasksOf(lanes, rows);
    },
    lookedAt: () => lookedAt ?? 0,
    dueFrom({ tenantId, accountId }) {
      const since = lookedAfter();
      if (since === undefined) return undefined;
      const [high, normal, bulk] = lanes.get(laneKey({ tenantId, accountId }))?.dueFrom ?? [];
      return [
        Math.min(high ?? since, since),
        Math.min(normal ?? since, since),
        Math.min(bulk ?? since, since),
      ];
    },
  };
}

const NOTHING_DUE: readonly null[] = Array.from({ length: 2 * SCHEDULED_PRIORITY }, () => null);

function lanesOf(rows: readonly DueRow[]): Map<string, LookedLane> {
  const lanes = new Map<string, LookedLane>();
  for (const row of rows) {
    if (row.task !== 'due') continue;
    const { tenantId, accountId, isActive, isSlowed, priority, dueAt } = row;
    const key = laneKey(row);
    const lane = lanes.get(key) ?? { tenantId, accountId, isActive, isSlowed, dueFrom: NOTHING_DUE.slice() };
    const known = lane.dueFrom[priority] ?? Number.POSITIVE_INFINITY;
    lane.dueFrom[priority] = Math.min(known, dueAt.getTime());
    lanes.set(key, lane);
  }
  return lanes;
}

/** Returns the tasks for each lane, and those for each tenant once. */
function tasksOf(lanes: ReadonlyMap<string, LookedLane>, rows: readonly DueRow[]): SweepTask[] {
  const due: SweepTask[] = [];
  const held = new Set<string>();
  const inactive: SweepTask[] = [];
  const scheduled = new Map<string, number>();
  for (const { tenantId, accountId, isActive, isSlowed, dueFrom } of lanes.values()) {
    const sendable = oldestOf(dueFrom.slice(0, SCHEDULED_PRIORITY));
    if (!isActive) {
      held.add(tenantId);
      if (sendable !== undefined) inactive.push({ task: 'review', tenantId, accountId });
      continue;
    }
    if (sendable !== undefined)
      due.push({ task: 'due', tenantId, accountId, oldestDue: new Date(sendable), isSlowed });
    const waiting = oldestOf(dueFrom.slice(SCHEDULED_PRIORITY));
    if (waiting !== undefined) scheduled.set(tenantId, Math.min(waiting, scheduled.get(tenantId) ?? waiting));
  }
  const released = rows.flatMap((row) => (row.task === 'release' ? [row.tenantId] : []));
  return [
    ...due,
    ...inactive,
    ...[...scheduled].map(
      ([tenantId, at]) => ({ task: 'queue', tenantId, oldestDue: new Date(at) }) as const,
    ),
    ...[...held].map((tenantId) => ({ task: 'hold', tenantId }) as const),
    ...released.map((tenantId) => ({ task: 'release', tenantId }) as const),
  ];
}

function oldestOf(instants: readonly (number | null)[]): number | undefined {
  const known = instants.filter((at) => at !== null);
  return known.length === 0 ? undefined : Math.min(...known);
}
