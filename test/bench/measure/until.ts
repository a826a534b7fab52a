import { setTimeout as delay } from 'node:timers/promises';
import { wallMs } from './clock.ts';
import type { Bench } from './bench.ts';

const POLL_MS = 20;
const SELDOM_MS = 100;
/** After this long without progress, nothing more is expected. */
const STALLED_MS = 30_000;

/** Waits until so many messages have reached the provider. Returns the final count; the ledger reports those that are missing. */
export function untilArrived({ helpers }: Bench, wanted: number): Promise<number> {
  return follow(wanted, async () => (await helpers.provider.run('count')).count);
}

/** Waits until so many events have reached the receiver. */
export function untilReceived({ helpers }: Bench, wanted: number): Promise<number> {
  return follow(wanted, async () => (await helpers.receiver.run('count')).count);
}

/** Longer than the lease of a worker that was killed. */
const LEFT_BEHIND_MS = 75_000;

/** Waits until the messages that an interrupted run left behind have been sent, and resets the provider's record. */
export async function untilQuiet({ helpers }: Bench): Promise<void> {
  const count = async (): Promise<number> => (await helpers.provider.run('count')).count;
  await helpers.provider.run('reset');
  await follow(Number.POSITIVE_INFINITY, count, LEFT_BEHIND_MS);
  await helpers.provider.run('reset');
}

/** Polls seldom, because counting rows is itself a large load. Returns the count when it reaches `wanted` or no longer grows. */
export function untilCounted(wanted: number, read: () => Promise<number>): Promise<number> {
  return follow(wanted, read, STALLED_MS, SELDOM_MS);
}

/** @throws when the count stops below `wanted`. */
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
