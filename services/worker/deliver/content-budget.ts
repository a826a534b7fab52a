import { createHoldings } from '#core/domain/queue/holdings.ts';

export type ContentBudget = {
  /**
   * Waits for room for a content. Resolves to the function that frees it, or to undefined if there was none in time.
   * @param bytes more than the shared part count as the whole of it.
   */
  readonly enter: (tenantId: string, bytes: number) => Promise<(() => void) | undefined>;
};

export type ContentBudgetOptions = {
  readonly bytesMax: number;
  /** Maximum wait for room, in milliseconds. */
  readonly waitMsMax: number;
};

/** The part of the budget that only small contents may take, and what is small: a part of that part. */
const RESERVED = 1 / 8;
const SMALL = 1 / 8;
/** The part of the maximum wait for which a content may be passed by others that fit. */
const PASSED = 1 / 4;

type Waiting = {
  readonly tenantId: string;
  readonly bytes: number;
  readonly admit: (part: Part) => void;
  /** Whether it has waited for so long that others must not pass it any more. */
  isPassed: boolean;
};

/**
 * Creates a budget of bytes for the contents that calls hold in memory. A call to a slow provider holds its content for most of a
 * minute, and must not delay the contents of other tenants:
 * - Tenants take turns. A tenant may hold no more than remains free afterwards, or one content.
 * - A reserve is kept for small contents of tenants that hold little. It has turns of its own, so that a tenant's small contents
 *   do not cost its large one the turn.
 * - Contents that fit pass one that does not, until it has waited for a while; from then on only the reserve is given to others.
 */
export function createContentBudget({ bytesMax, waitMsMax }: ContentBudgetOptions): ContentBudget {
  const reserve = createPart(Math.floor(bytesMax * RESERVED));
  const shared = createPart(bytesMax - reserve.bytesMax);
  const smallMax = reserve.bytesMax * SMALL;
  const passedMs = waitMsMax * PASSED;
  /** All contents that wait, and the small ones of them, by tenants in the order of their turns. */
  const waiting = createTurns();
  const waitingSmall = createTurns();
  /** Whether the shared part is kept for a content that waits. */
  let isKept = false;
  let passDue: NodeJS.Immediate | undefined;

  const isSmall = (one: Waiting): boolean => one.bytes <= smallMax;

  function fitsReserve({ tenantId, bytes }: Waiting): boolean {
    return shared.heldBy(tenantId) + reserve.heldBy(tenantId) + bytes <= reserve.free() - bytes;
  }

  function fitsShared({ tenantId, bytes }: Waiting, free = shared.free()): boolean {
    const own = shared.heldBy(tenantId);
    return own === 0 ? bytes <= free : own + bytes <= free - bytes;
  }

  /**
   * Whether the shared part is kept for a content. It would fit if all other tenants were gone, and is larger than all its tenant
   * holds: slow calls with large contents must not keep the room for the next ones of their tenant.
   */
  function deservesRoom(one: Waiting): boolean {
    const own = shared.heldBy(one.tenantId);
    return one.isPassed && own < one.bytes && fitsShared(one, shared.bytesMax - own);
  }

  /** Returns the first content of a tenant for which the shared part has room. */
  function nextOf(contents: ReadonlySet<Waiting>): Waiting | undefined {
    for (const one of contents) {
      if (fitsShared(one)) return one;
      if (!one.isPassed) continue;
      // The tenant's own contents no longer pass this one, and no others either once it waits for them alone.
      isKept = deservesRoom(one);
      return undefined;
    }
    return undefined;
  }

  function give(one: Waiting, part: Part): void {
    waiting.remove(one);
    waitingSmall.remove(one);
    (part === shared ? waiting : waitingSmall).moveToEnd(one.tenantId);
    part.hold(one.tenantId, one.bytes);
    one.admit(part);
  }

  /** Gives all the room there is. It reads all that waits, so it runs once for all waits that end together. */
  function admit(): void {
    // Turns reach tenants that moved to the end, so each of the loops goes on for as long as there is room.
    for (const contents of waitingSmall.lines()) {
      const small = contents.values().find(fitsReserve);
      if (small !== undefined) give(small, reserve);
    }
    isKept = false;
    for (const contents of waiting.lines()) {
      const next = nextOf(contents);
      if (isKept) return;
      if (next !== undefined) give(next, shared);
    }
  }

  function admitSoon(): void {
    passDue ??= setImmediate(() => {
      passDue = undefined;
      admit();
    });
  }

  /** Returns the part that has room for a content that arrives. None of those that wait fits, so it passes only them. */
  function partFor(one: Waiting): Part | undefined {
    if (isSmall(one) && fitsReserve(one)) return reserve;
    const mayShare = !isKept && waiting.firstOf(one.tenantId)?.isPassed !== true;
    return mayShare && fitsShared(one) ? shared : undefined;
  }

  return {
    enter(tenantId, wanted) {
      const bytes = Math.min(wanted, shared.bytesMax);
      return new Promise((resolve) => {
        let timer: NodeJS.Timeout | undefined;
        const one: Waiting = {
          tenantId,
          bytes,
          isPassed: false,
          admit(part) {
            clearTimeout(timer);
            resolve(() => {
              part.hold(tenantId, -bytes);
              admit();
            });
          },
        };
        const part = partFor(one);
        if (part !== undefined) return give(one, part);
        waiting.add(one);
        if (isSmall(one)) waitingSmall.add(one);
        timer = setTimeout(() => {
          one.isPassed = true;
          admitSoon();
          timer = setTimeout(() => {
            waiting.remove(one);
            waitingSmall.remove(one);
            resolve(undefined);
            admitSoon();
          }, waitMsMax - passedMs);
        }, passedMs);
      });
    },
  };
}

/** Creates the lines of contents that wait, in the order of arrival, by tenants in the order of their turns. */
function createTurns() {
  const lines = new Map<string, Set<Waiting>>();
  return {
    lines: () => lines.values(),
    firstOf: (tenantId: string) => lines.get(tenantId)?.values().next().value,
    add(one: Waiting): void {
      const line = lines.get(one.tenantId) ?? new Set();
      lines.set(one.tenantId, line.add(one));
    },
    remove(one: Waiting): void {
      const line = lines.get(one.tenantId);
      line?.delete(one);
      if (line?.size === 0) lines.delete(one.tenantId);
    },
    moveToEnd(tenantId: string): void {
      const line = lines.get(tenantId);
      if (line === undefined) return;
      lines.delete(tenantId);
      lines.set(tenantId, line);
    },
  };
}

type Part = ReturnType<typeof createPart>;

/** A part of the budget, and what each tenant holds of it. */
function createPart(bytesMax: number) {
  const held = createHoldings();
  return { bytesMax, free: () => bytesMax - held.total, heldBy: held.of, hold: held.add };
}
