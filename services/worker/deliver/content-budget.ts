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

type Waiting = { readonly bytes: number; readonly since: number; readonly admit: (part: Part) => void };

/**
 * Creates a budget of bytes for the contents that calls hold in memory. A call to a slow provider holds its content for most of a
 * minute, and must not delay the contents of other tenants:
 * - Tenants take turns. A tenant may hold no more than remains free afterwards, or one content.
 * - A reserve is kept for small contents of tenants that hold little.
 * - Contents that fit pass one that does not, until it has waited for a while; from then on only the reserve is given to others.
 */
export function createContentBudget({ bytesMax, waitMsMax }: ContentBudgetOptions): ContentBudget {
  const reserve = createPart(Math.floor(bytesMax * RESERVED));
  const shared = createPart(bytesMax - reserve.bytesMax);
  const smallMax = reserve.bytesMax * SMALL;
  /** Contents that wait, in the order of arrival, by tenants in the order of their turns. */
  const waiting = new Map<string, Set<Waiting>>();

  function partFor(tenantId: string, bytes: number, mayShare: boolean): Part | undefined {
    const own = shared.heldBy(tenantId);
    const isSmall = bytes <= smallMax;
    if (isSmall && own + reserve.heldBy(tenantId) + bytes <= reserve.free() - bytes) return reserve;
    const most = own === 0 ? shared.free() : shared.free() - bytes - own;
    return mayShare && bytes <= most ? shared : undefined;
  }

  /** Returns the first content of a tenant for which there is room. */
  function nextOf(tenantId: string, line: ReadonlySet<Waiting>, isKept: boolean) {
    let mayShare = !isKept;
    let keeps = isKept;
    for (const one of line) {
      const part = partFor(tenantId, one.bytes, mayShare);
      if (part !== undefined) return { found: { one, part }, keeps };
      if (performance.now() - one.since < waitMsMax * PASSED) continue;
      // The tenant's own contents no longer pass this one, and no others either once it waits for them alone.
      mayShare = false;
      keeps ||= shared.heldBy(tenantId) === 0;
    }
    return { found: undefined, keeps };
  }

  function admit(): void {
    let isKept = false;
    // A map reaches entries that are inserted again at its end, so this goes on for as long as there is room.
    for (const [tenantId, line] of waiting) {
      const { found, keeps } = nextOf(tenantId, line, isKept);
      isKept = keeps;
      if (found === undefined) continue;
      line.delete(found.one);
      waiting.delete(tenantId);
      if (line.size > 0) waiting.set(tenantId, line);
      found.part.hold(tenantId, found.one.bytes);
      found.one.admit(found.part);
    }
  }

  function leave(tenantId: string, one: Waiting): void {
    const line = waiting.get(tenantId);
    line?.delete(one);
    if (line?.size === 0) waiting.delete(tenantId);
  }

  return {
    enter(tenantId, wanted) {
      const bytes = Math.min(wanted, shared.bytesMax);
      return new Promise((resolve) => {
        const one: Waiting = {
          bytes,
          since: performance.now(),
          admit(part) {
            clearTimeout(timer);
            resolve(() => {
              part.hold(tenantId, -bytes);
              admit();
            });
          },
        };
        const timer = setTimeout(() => {
          leave(tenantId, one);
          resolve(undefined);
          admit();
        }, waitMsMax);
        const line = waiting.get(tenantId) ?? new Set();
        waiting.set(tenantId, line.add(one));
        admit();
      });
    },
  };
}

type Part = ReturnType<typeof createPart>;

/** A part of the budget, and what each tenant holds of it. */
function createPart(bytesMax: number) {
  const held = new Map<string, number>();
  let free = bytesMax;
  return {
    bytesMax,
    free: () => free,
    heldBy: (tenantId: string) => held.get(tenantId) ?? 0,
    hold(tenantId: string, bytes: number): void {
      free -= bytes;
      const own = (held.get(tenantId) ?? 0) + bytes;
      if (own > 0) held.set(tenantId, own);
      else held.delete(tenantId);
    },
  };
}
