import type { MonotonicClock } from '#core/domain/clock.ts';
import { createDutyCycle } from '#core/domain/queue/duty-cycle.ts';

/** Endpoints that had deliveries due when they were last looked at. A look at all endpoints is a **round** of calls. */
export type DueEndpoints = {
  /**
   * Returns where the next call looks.
   * @param after null: a new round begins. @param most endpoints that the call looks at: it needs to know no more than these and
   * the one after them.
   */
  look(after: string | null, most: number): { readonly since: string; readonly known: readonly object[] };
  looked(look: DueLook): void;
};

/** The findings of a call. */
export type DueLook = {
  readonly seen: readonly string[];
  /** Since when each of them has something due; null: it has nothing. */
  readonly earliest: readonly (Date | null)[];
  /** Where the next call of the round begins; null: the round is over. */
  readonly next: string | null;
  /** By the database's clock. */
  readonly lookedAt: Date;
};

/** A row may become visible this long after the time stored in it, because its commit takes time. */
const COMMIT_MS = 5_000;
/** Number of endpoints remembered; beyond it, all endpoints are looked at. */
const KNOWN_MAX = 5_000;
const FULL_LOOKS_GAP_MS = 5_000;

/**
 * Remembers which endpoints had deliveries due when they were last looked at, and since when, so that a look does not scan past
 * dead index entries that an old snapshot keeps (ADR 25). No delivery is due before the moment at which it is stored. A look at
 * all endpoints is a **round** of calls, each of which continues where the previous one ended.
 */
export function createDueEndpoints(monotonicMs: MonotonicClock = () => performance.now()): DueEndpoints {
  const known = new Map<string, Date>();
  /** Known endpoints that the round has not reached, in the order of their ids. */
  let ahead: readonly string[] = [];
  /** By the database's clock; null: look at everything. */
  let since: Date | null = null;
  let begunAt: Date | undefined;
  let isFull = true;
  const full = createDutyCycle(monotonicMs, FULL_LOOKS_GAP_MS);

  return {
    look(after, most) {
      if (after === null) {
        begunAt = undefined;
        isFull = since === null || full.isDue() || known.size > KNOWN_MAX;
        if (isFull) {
          // The round finds again all that still have something due. If it is broken off, the next one is full too.
          full.begun();
          known.clear();
        }
        ahead = [...known.keys()].toSorted(byId);
      }
      if (isFull || since === null) return { since: '-infinity', known: [] };
      if (after !== null) ahead = ahead.filter((id) => id > after);
      return {
        since: since.toISOString(),
        known: ahead.slice(0, most + 1).flatMap((id) => {
          const from = known.get(id);
          return from === undefined ? [] : [{ id, due_from: from.toISOString() }];
        }),
      };
    },
    looked({ seen, earliest, next, lookedAt }) {
      begunAt ??= lookedAt;
      for (const [i, id] of seen.entries()) {
        const from = earliest[i] ?? null;
        // Deliveries that become due later are found by time: they were not due before this look.
        if (from !== null && from <= lookedAt) known.set(id, earlier(from, lookedAt));
        else known.delete(id);
      }
      if (next !== null) return;
      since = earlier(begunAt, begunAt);
      if (isFull) full.ended();
    },
  };
}

/** Compares ids in their canonical form, which the database orders alike. */
function byId(a: string, b: string): number {
  return a < b ? -1 : Number(a > b);
}

/** Returns the earlier of a due time and the time of a look, allowing for commits that became visible late. */
function earlier(due: Date, lookedAt: Date): Date {
  return new Date(Math.min(due.getTime(), lookedAt.getTime() - COMMIT_MS));
}
