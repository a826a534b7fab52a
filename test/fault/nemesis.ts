import { FAULTS } from './faults/all.ts';
import type { FaultContext, Injection } from './faults/fault.ts';
import { seededRandom } from './random.ts';
import { untilAllReady } from './rig.ts';

/** One fault as it happened. Times are milliseconds since the epoch. */
export type Trial = {
  readonly number: number;
  readonly name: string;
  readonly seed: number;
  /** Wait before it, in milliseconds. */
  readonly offsetMs: number;
  readonly target: string;
  /** Why there was none. */
  readonly notRun?: string;
  readonly injectedAt: number;
  readonly healedAt: number;
  /** From the end of the fault until every process was ready again; null where that took too long. */
  readonly readyMs: number | null;
};

export type NemesisOptions = {
  readonly trials: number;
  readonly only: readonly string[];
  readonly seed: number;
};

const OFFSET_MS_MAX = 600;
const READY_MS_MAX = 40_000;

/** Breaks one thing after the other and mends it again. */
export async function runNemesis(
  context: Omit<FaultContext, 'random'>,
  { trials, only, seed }: NemesisOptions,
  note: (trial: Trial) => void,
): Promise<Trial[]> {
  const faults = FAULTS.filter(({ name }) => only.length === 0 || only.includes(name));
  const random = seededRandom(seed);
  const { rig } = context;
  const done: Trial[] = [];
  // Each of them once, then any of them: a short run breaks as many different things as it can.
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
    if ('notRun' in injection) {
      const { notRun } = injection;
      const rest = { target: '', notRun, injectedAt, healedAt: injectedAt, readyMs: 0 };
      done.push({ number, name: fault.name, seed: trialSeed, offsetMs, ...rest });
    } else {
      await sleep(injection.holdMs);
      await injection.heal();
      const healedAt = Date.now();
      const isReady = await untilAllReady([...rig.apis, ...rig.workers], READY_MS_MAX);
      const readyMs = isReady ? Date.now() - healedAt : null;
      const { target } = injection;
      done.push({
        number,
        name: fault.name,
        seed: trialSeed,
        offsetMs,
        target,
        injectedAt,
        healedAt,
        readyMs,
      });
    }
    note(done.at(-1) as Trial);
  }
  return done;
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
