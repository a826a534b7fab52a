import { endOrphanedLeases, hurryDeliveries, hurrySilent, undelivered, unfinished } from './records.ts';
import type { Servers } from './servers.ts';

/** The longest backoff that refusals cause in a run, plus a sweep. Measured from the last message that was finished. */
const DRAIN_MS_MAX = 150_000;
/** A due message counts as stuck after this long without progress. It allows for workers that a busy machine starves. */
const STUCK_MS = 30_000;
const LOOK_MS = 500;

/** Measured from the last delivery that was made or postponed. */
const SILENT_MS = 30_000;

/** Waits until every event is delivered, or until deliveries make no progress. @returns the number left. */
export async function drainDeliveries(ask: Servers['ask']): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  let leastAt = Date.now();
  for (;;) {
    await ask(hurryDeliveries);
    const open = await ask(undelivered);
    if (open < least) [least, leastAt] = [open, Date.now()];
    if (open === 0 || Date.now() - leastAt > SILENT_MS) return open;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

/**
 * Waits until every receipt timeout that has passed so far is decided, or a time limit is reached. Receipts that a killed worker
 * had claimed prevent a failover, so their leases are ended.
 * @returns the time up to which timeouts were considered.
 */
export async function drainSilent(ask: Servers['ask']): Promise<number> {
  const begunAt = Date.now();
  while ((await ask((sql) => hurrySilent(sql, begunAt))) > 0 && Date.now() - begunAt < DRAIN_MS_MAX) {
    await ask(endOrphanedLeases);
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return begunAt;
}

/** Waits until no work is left, or the rest makes no progress. @returns how many messages still wait for a later time. */
export async function drain(ask: Servers['ask']): Promise<number> {
  let least = Number.POSITIVE_INFINITY;
  let leastAt = Date.now();
  for (;;) {
    const { open, waiting, overdue } = await ask(unfinished);
    if (open < least) [least, leastAt] = [open, Date.now()];
    const silentMs = Date.now() - leastAt;
    if (open === 0 || silentMs > (overdue > 0 ? STUCK_MS : DRAIN_MS_MAX)) return waiting;
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}
