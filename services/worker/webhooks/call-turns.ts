import { hasSurplus, NO_TENANTS, type TenantsWithSurplus } from '#core/domain/queue/expected-work.ts';
import { batchWaitMs, type Wait } from '#core/domain/queue/rest-beside-sends.ts';
import { createSideRest } from '../beside-sends/side-rest.ts';

export type CallTurnsDeps<Entry, Call> = {
  /** Returns the next call of an entry; undefined: none may begin now; `over_share`: its tenant has its share of the slots. */
  readonly next: (entry: Entry) => Call | 'over_share' | undefined;
  readonly begin: (entry: Entry, call: Call) => void;
  readonly waitOf: (entry: Entry, call: Call) => Wait;
  /** Whether a slot is free. */
  readonly hasSlot: () => boolean;
  /** Whether messages are being sent; they have priority. */
  readonly isSending: () => boolean;
  /** Tenants whose calls exceed the expected number. */
  readonly withSurplus: () => TenantsWithSurplus;
  /**
   * Counts calls by tenant.
   * @returns how many of them were surplus.
   */
  readonly use: (calls: ReadonlyMap<string, number>) => number;
};

/** Decides in which order, and when, calls to endpoints begin; an entry is an endpoint with claims. */
export type CallTurns<Entry> = {
  /** Notes that the entry may have a call to begin. */
  add(entry: Entry): void;
  remove(entry: Entry): void;
  /** Notes that a call has ended, which leaves a larger share to tenants that had theirs. */
  slotFreed(): void;
};

/** Calls that one turn of the event loop begins. */
const TURN_MAX = 32;
/** A call's total CPU time, with its writing, answer and record, as a multiple of the time that beginning it takes. */
const WHOLE_CALL = 3;

/**
 * Creates the turns of a worker's calls: one of each entry in turn. While messages are sent, surplus calls are followed by a rest,
 * during which entries of tenants with surplus wait.
 */
export function createCallTurns<Entry extends { readonly tenantId: string }, Call>(
  deps: CallTurnsDeps<Entry, Call>,
): CallTurns<Entry> {
  /** Entries that may have an event to begin, in the order of their turns. */
  const turns = new Set<Entry>();
  /** Entries whose tenants have their share of the slots. */
  let overShare = new Set<Entry>();
  /** Entries whose tenants have surplus; they wait until the rest is over. */
  let resting = new Set<Entry>();
  let isScheduled = false;
  const rest = createSideRest({ kind: 'events', isSending: deps.isSending, onOver: endRest });

  function schedule(): void {
    if (turns.size > 0 && !isScheduled) {
      isScheduled = true;
      setImmediate(turn);
    }
    if (resting.size > 0) rest.callWhenOver();
  }

  function endRest(): void {
    for (const entry of resting) turns.add(entry);
    resting = new Set();
    schedule();
  }

  /** Begins the next calls. */
  function turn(): void {
    isScheduled = false;
    const begunAt = performance.now();
    const withSurplus = rest.leftMs() > 0 ? deps.withSurplus() : NO_TENANTS;
    const calls = new Map<string, number>();
    const waits: Wait[] = [];
    while (waits.length < TURN_MAX && deps.hasSlot()) {
      const [entry] = turns;
      if (entry === undefined) break;
      turns.delete(entry);
      if (hasSurplus(withSurplus, entry.tenantId)) {
        resting.add(entry);
        continue;
      }
      const call = deps.next(entry);
      if (call === undefined) continue;
      if (call === 'over_share') {
        overShare.add(entry);
        continue;
      }
      turns.add(entry);
      calls.set(entry.tenantId, (calls.get(entry.tenantId) ?? 0) + 1);
      waits.push(deps.waitOf(entry, call));
      deps.begin(entry, call);
    }
    const surplus = waits.length === 0 ? 0 : deps.use(calls) / waits.length;
    const tookMs = WHOLE_CALL * (performance.now() - begunAt) * surplus;
    if (surplus > 0) rest.extend({ tookMs, waitedMs: batchWaitMs(waits) });
    if (deps.hasSlot()) schedule();
  }

  return {
    add(entry) {
      turns.add(entry);
      schedule();
    },
    remove(entry) {
      turns.delete(entry);
      overShare.delete(entry);
      resting.delete(entry);
    },
    slotFreed() {
      if (overShare.size === 0) return;
      for (const entry of overShare) turns.add(entry);
      overShare = new Set();
      schedule();
    },
  };
}
