/** What was committed may be this much older than the look that first could see it. */
const COMMIT_MS = 5_000;
/** Endpoints that are remembered; more of them, and all is looked at. */
const KNOWN_MAX = 5_000;
/** Looks at all take this part of the time at most. */
const FULL_LOOKS_PART = 50;
const FULL_LOOKS_GAP_MS = 5_000;

type Look = {
  readonly seen: readonly string[];
  readonly earliest: readonly (Date | null)[];
  readonly next: string | null;
  readonly lookedAt: Date;
};

/**
 * Which endpoints had something due when they were looked at, and since when: so that a look need not begin with rows that
 * have long gone, which an old snapshot keeps (ADR 25). Nothing is ever due before the moment in which it is stored.
 * A look at all endpoints is a **round** of calls, each of which goes on where the one before has ended.
 */
export function dueEndpoints(now: () => number = () => performance.now()) {
  const known = new Map<string, Date>();
  /** By the database's clock; null: at everything. */
  let since: Date | null = null;
  let begunAt: Date | undefined;
  let isFull = true;
  let fullFrom = now();
  let nextFullAt = -Infinity;

  return {
    /** Where the next call looks. @param after null: a round begins. */
    look(after: string | null): { readonly since: string; readonly known: readonly object[] } {
      if (after === null) {
        begunAt = undefined;
        isFull = since === null || now() >= nextFullAt || known.size > KNOWN_MAX;
        if (isFull) fullFrom = now();
      }
      if (isFull || since === null) return { since: '-infinity', known: [] };
      return {
        since: since.toISOString(),
        known: [...known].map(([id, from]) => ({ id, due_from: from.toISOString() })),
      };
    },
    looked({ seen, earliest, next, lookedAt }: Look): void {
      begunAt ??= lookedAt;
      for (const [i, id] of seen.entries()) {
        const from = earliest[i] ?? null;
        // What becomes due later is seen then: it was not before this look.
        if (from !== null && from <= lookedAt) known.set(id, earlier(from, lookedAt));
        else known.delete(id);
      }
      if (next !== null) return;
      since = earlier(begunAt, begunAt);
      if (!isFull) return;
      const tookMs = now() - fullFrom;
      nextFullAt = now() + Math.max(FULL_LOOKS_GAP_MS, FULL_LOOKS_PART * tookMs);
    },
  };
}

/** The first of two instants, of which the second is one of a look. */
function earlier(due: Date, lookedAt: Date): Date {
  return new Date(Math.min(due.getTime(), lookedAt.getTime() - COMMIT_MS));
}
