import { setTimeout as delay } from 'node:timers/promises';
import { wallMs } from './clock.ts';
import type { Bench } from './bench.ts';

const POLL_MS = 20;
const SELDOM_MS = 100;
/** Without any progress for so long, no more will come. */
const STALLED_MS = 30_000;

/** Returns the count then. What does not come is found missing by the ledger. */
export function untilArrived({ helpers }: Bench, wanted: number): Promise<number> {
  return follow(wanted, async () => (await helpers.provider.run('count')).count);
}

/** The same of events at the receiver. */
export function untilReceived({ helpers }: Bench, wanted: number): Promise<number> {
  return follow(wanted, async () => (await helpers.receiver.run('count')).count);
}

/** Longer than a message belongs to a worker that has gone. */
const LEFT_BEHIND_MS = 75_000;

/** Returns when what a run left behind that was ended in the middle has been called, and forgets that it was. */
export async function untilQuiet({ helpers }: Bench): Promise<void> {
  const count = async (): Promise<number> => (await helpers.provider.run('count')).count;
  await helpers.provider.run('reset');
  await follow(Number.POSITIVE_INFINITY, count, LEFT_BEHIND_MS);
  await helpers.provider.run('reset');
}

/** Asks seldom: what counts rows is no small part of the load. Returns the count when it has reached so many, or no more come. */
export function untilCounted(wanted: number, read: () => Promise<number>): Promise<number> {
  return follow(wanted, read, STALLED_MS, SELDOM_MS);
}

/** @throws when it stops short of that. */
export async function untilReached(what: string, wanted: number, read: () => Promise<number>): Promise<void> {
  const reached = await follow(wanted, read);
  if (reached < wanted) throw new Error(`${what}: only ${reached} of ${wanted}`);
}

async function follow(
  wanted: number,
  read: () => Promise<number>,
  stalledMs: number = STALLED_MS,
  pollMs: number = POLL_MS,
): Promise<number> {
  let [most, movedAt] = [Number.NEGATIVE_INFINITY, wallMs()];
  for (;;) {
    const now = await read();
    if (now > most) [most, movedAt] = [now, wallMs()];
    if (now >= wanted || wallMs() - movedAt > stalledMs) return now;
    await delay(pollMs);
  }
}
