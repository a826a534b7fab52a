import { hurryDeliveries, hurrySilent, undelivered, unfinished } from './records.ts';
import type { Servers } from './servers.ts';

/** The longest wait that a provider's refusals cause in a run, and the sweep after it. Counted since something was last finished. */
const DRAIN_MS_MAX = 150_000;
/** Nothing has been finished for this long although it was due: a busy machine may starve a worker for some of it. */
const STUCK_MS = 30_000;
const LOOK_MS = 500;

/** Since the last delivery was made, or the last one put off. */
const SILENT_MS = 30_000;

/** Waits until each event was delivered, or none has been for long. @returns what is left to do. */
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
 * Waits until it is decided of all messages on which their accounts had not reported in time so far, or until that takes too long.
 * A worker that was killed may have taken receipts which hold them off: these come again in a minute, as the rest of the drain
 * waits for too.
 * @returns the time that `so far` ended.
 */
export async function drainSilent(ask: Servers['ask']): Promise<number> {
  const begunAt = Date.now();
  while ((await ask((sql) => hurrySilent(sql, begunAt))) > 0 && Date.now() - begunAt < DRAIN_MS_MAX) {
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
  return begunAt;
}

/** Waits until nothing is left to do, or what is left does not move any more. @returns how many still wait for their time. */
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
