import type { Lane } from '#core/store/deliveries.ts';

/** What is known of a lane's due messages. */
export type DueMark = {
  /** Some may not be due yet by the clock: their wake-up has come, or should have. */
  readonly ahead?: boolean;
  /** Marked by the sweep: the lane may hold messages that no claim takes, as they are expired or their worker is gone. */
  readonly swept?: boolean;
};

export type DueLane = Lane & Required<DueMark>;

/** For maps by lane. */
export const laneKey = (tenantId: string, accountId: string): string => `${tenantId} ${accountId}`;

/**
 * The lanes (a tenant's queue for one account) with due messages in the database. A lane whose account is closed, since
 * its breaker is open or its tokens are used up, stays marked and is not claimed from before its account opens.
 */
export type Lanes = {
  mark(lane: Lane, mark?: DueMark): void;
  /** Takes the mark off the tenant's next open lane and returns the lane. Lanes of a tenant take turns. */
  take(tenantId: string): DueLane | undefined;
  isOpen(tenantId: string): boolean;
  /** Checks closed lanes again, as an account has changed. */
  recheck(): void;
  /** Stops the timer. */
  stop(): void;
};

export type LanesOptions = {
  /** When lanes of this account may be claimed from, in ms since the epoch; in the past: now. */
  readonly closedUntil: (accountId: string) => number;
  /** Called with the tenant of a lane that may be claimed from: when it is marked, and when its account opens. */
  readonly onOpen: (tenantId: string) => void;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
};

/** Timers may be early by a millisecond. */
const TIMER_MARGIN_MS = 2;

export function createLanes({ closedUntil, onOpen, now }: LanesOptions): Lanes {
  /** By tenant, then by account, in the order of their turns. */
  const due = new Map<string, Map<string, DueLane>>();
  let timer: NodeJS.Timeout | undefined;
  let timerAt = Number.POSITIVE_INFINITY;

  const isOpen = ({ accountId }: Lane): boolean => closedUntil(accountId) <= now();

  /** One timer, for the first account that opens. */
  function wait({ accountId }: Lane): void {
    const at = closedUntil(accountId);
    if (at >= timerAt) return;
    clearTimeout(timer);
    timerAt = at;
    timer = setTimeout(recheck, Math.max(0, at - now()) + TIMER_MARGIN_MS);
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
        // Marked again during its claim, it comes back behind the others.
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
