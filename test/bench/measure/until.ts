import { setTimeout as delay } from 'node:timers/promises';
import { wallMs } from './clock.ts';
import type { Bench } from './bench.ts';

const POLL_MS = 20;
/** Without any progress for so long, no more will come. */
const STALLED_MS = 30_000;

/** Returns the count then. What does not come is found missing by the ledger. */
export function untilArrived({ helpers }: Bench, wanted: number): Promise<number> {
  return follow(wanted, async () => (await helpers.provider.run('count')).count);
}

/** @throws when it stops short of that. */
export async function untilReached(what: string, wanted: number, read: () => Promise<number>): Promise<void> {
  const reached = await follow(wanted, read);
  if (reached < wanted) throw new Error(`${what}: only ${reached} of ${wanted}`);
}

async function follow(wanted: number, read: () => Promise<number>): Promise<number> {
  let [most, movedAt] = [Number.NEGATIVE_INFINITY, wallMs()];
  for (;;) {
    const now = await read();
    if (now > most) [most, movedAt] = [now, wallMs()];
    if (now >= wanted || wallMs() - movedAt > STALLED_MS) return now;
    await delay(POLL_MS);
  }
}
