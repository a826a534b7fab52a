import { FAULTS } from './faults/all.ts';
import type { FaultContext, Injection } from './faults/fault.ts';

import { untilEachReady } from './node.ts';
import { seededRandom } from './random.ts';

/** One injected fault. Times are milliseconds since the epoch. */
export type Trial = {
  readonly number: number;
  readonly name: string;
  readonly seed: number;
  /** Delay before the fault, in milliseconds. */
  readonly offsetMs: number;
  readonly target: string;
  /** Why the fault was not injected. */
  readonly notRun?: string;
  readonly injectedAt: number;
  readonly healedAt: number;
  /** Time from the end of the fault until every process had been ready again; null where that took too long. */
  readonly readyMs: number | null;
  /** Processes that were not ready in time, and their condition then. */
  readonly unready: readonly string[];
};

export type NemesisOptions = {
  readonly trials: number;
  readonly only: readonly string[];
  readonly seed: number;
};

const OFFSET_MS_MAX = 600;
/**
 * The next fault is injected after this time even if a process is still starting, so that a slow machine does not lengthen the
 * run.
 */
const PATIENCE_MS = 5_000;
/** Detects a process that never becomes ready again. On a busy machine a start alone takes 20 s. */
const READY_MS_MAX = 150_000;

/** Injects one fault after the other and heals each. */
export async function runNemesis(
  context: Omit<FaultContext, 'random'>,
  { trials, only, seed }: NemesisOptions,
  note: (trial: Trial) => void,
): Promise<Trial[]> {
  const faults = FAULTS.filter(({ name }) => only.length === 0 || only.includes(name));
  const random = seededRandom(seed);
  const { rig } = context;
  const done: Promise<Trial>[] = [];
  // Draws each fault once before it repeats any, so that a short run injects as many different faults as possible.
  let deck: typeof faults = [];
  for (let number = 1; number <= trials; number++) {
    if (deck.length === 0) deck = shuffled(faults, random);
    const fault = deck.pop() as (typeof faults)[number];
    const trialSeed = random.whole(0, 2 ** 32 - 1);
    const own = seededRandom(trialSeed);
    const offsetMs = own.whole(0, OFFSET_MS_MAX);
    await sleep(offsetMs);
    const injectedAt = Date.now();
    const injection: Injection = await fault.inject({ ...context, random: own });
    const known = { number, name: fault.name, seed: trialSeed, offsetMs, injectedAt };
    if ('notRun' in injection) {
      const { notRun } = injection;
      done.push(
        Promise.resolve({ ...known, target: '', notRun, healedAt: injectedAt, readyMs: 0, unready: [] }),
      );
    } else {
      const { target } = injection;
      await sleep(injection.holdMs);
      await injection.heal();
      const healedAt = Date.now();
      const ready = untilEachReady([...rig.apis, ...rig.workers], READY_MS_MAX).then((unready) => {
        const readyMs = unready.length === 0 ? Date.now() - healedAt : null;
        return { ...known, target, healedAt, readyMs, unready };
      });
      done.push(ready);
      await Promise.race([ready, sleep(PATIENCE_MS)]);
    }
    void done.at(-1)?.then(note);
  }
  return Promise.all(done);
}

function shuffled<T>(items: readonly T[], random: { whole: (min: number, max: number) => number }): T[] {
  const deck = [...items];
  for (let i = deck.length - 1; i > 0; i--) {
    const j = random.whole(0, i);
    [deck[i], deck[j]] = [deck[j] as T, deck[i] as T];
  }
  return deck;
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
