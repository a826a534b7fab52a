import type { MonotonicClock } from '#core/domain/clock.ts';
import type { Lane } from '#core/store/sending/lane.ts';

/** Facts about a lane's due messages. */
export type DueMark = {
  /** Some messages may not be due yet by the clock: their wake-up has arrived, or should have. */
  readonly ahead?: boolean;
  /** Marked by the sweep: the lane may hold messages that no claim takes, because they are expired or their worker is dead. */
  readonly swept?: boolean;
};

export type DueLane = Lane & Required<DueMark>;

/** Returns the key of a lane for maps. */
export const laneKey = ({ tenantId, accountId }: Lane): string => `${tenantId} ${accountId}`;

/**
 * The lanes (a tenant's queue for one account) with due messages in the database. A lane whose account gate is closed, because of
 * an open breaker or used-up tokens, stays marked and is not claimed from until the gate opens.
 */
export type Lanes = {
  mark(lane: Lane, mark?: DueMark): void;
  /** Clears the mark of the tenant's next open lane and returns the lane. The lanes of a tenant take turns. */
  take(tenantId: string): DueLane | undefined;
  isOpen(tenantId: string): boolean;
  /** Checks closed lanes again after an account has changed. */
  recheck(): void;
  /** Stops the timer. */
  stop(): void;
};

export type LanesOptions = {
  /** When lanes of this account may be claimed from, by `monotonicMs`; a time in the past means now. */
  readonly closedUntil: (accountId: string) => number;
  /** Called with the tenant of a lane that may be claimed from: when the lane is marked, and when its account's gate opens. */
  readonly onOpen: (tenantId: string) => void;
  /** Milliseconds of a clock that is never set back. */
  readonly monotonicMs: MonotonicClock;
};

/** Timers may fire a millisecond early. */
const TIMER_MARGIN_MS = 2;

export function createLanes({ closedUntil, onOpen, monotonicMs }: LanesOptions): Lanes {
  /** By tenant, then by account, in the order of their turns. */
  const due = new Map<string, Map<string, DueLane>>();
  let timer: NodeJS.Timeout | undefined;
  let timerAt = Number.POSITIVE_INFINITY;

  const isOpen = ({ accountId }: Lane): boolean => closedUntil(accountId) <= monotonicMs();

  /** Sets the one timer to the earliest time at which a gate opens. */
  function wait({ accountId }: Lane): void {
    const at = closedUntil(accountId);
    if (at >= timerAt) return;
    clearTimeout(timer);
    timerAt = at;
    timer = setTimeout(recheck, Math.max(0, at - monotonicMs()) + TIMER_MARGIN_MS);
    timer.unref();
  }

  function recheck(): void {
    clearTimeout(timer);
    timerAt = Number.POSITIVE_INFINITY;
    for (const lanes of due.values()) {
      for (const lane of lanes.values()) {
        if (isOpen(lane)) onOpen(lane.tenantId);
        else wait(lane);
      }
    }
  }

  return {
    mark({ tenantId, accountId }, { ahead = false, swept = false } = {}) {
      const lanes = due.get(tenantId) ?? new Map<string, DueLane>();
      const known = lanes.get(accountId);
      const lane = {
        tenantId,
        accountId,
        ahead: ahead || known?.ahead === true,
        swept: swept || known?.swept === true,
      };
      due.set(tenantId, lanes.set(accountId, lane));
      if (isOpen(lane)) onOpen(tenantId);
      else wait(lane);
    },
    take(tenantId) {
      const lanes = due.get(tenantId);
      for (const lane of lanes?.values() ?? []) {
        if (!isOpen(lane)) {
          wait(lane);
          continue;
        }
        // If the lane is marked again during its claim, it is queued behind the tenant's other lanes.
        lanes?.delete(lane.accountId);
        if (lanes?.size === 0) due.delete(tenantId);
        return lane;
      }
      return undefined;
    },
    isOpen: (tenantId) => [...(due.get(tenantId)?.values() ?? [])].some(isOpen),
    recheck,
    stop: () => clearTimeout(timer),
  };
}
