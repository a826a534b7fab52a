import { join, resolve } from 'node:path';
import { beginGrowth, isGrown, measureGrowth, requireSameGrowth, type Growth } from './measure/growth.ts';
import { describeMachine, type Machine } from './measure/machine.ts';
import { beginSoak, isSoaked, measureSoak, requireSameSoak, type Soak } from './measure/soak.ts';
import type { Bench } from './measure/bench.ts';
import type { BenchOptions } from './options.ts';
import { keepResult, lastResult } from './report/kept-result.ts';
import { figureOf, spreadOver, type BenchResult } from './report/result.ts';
import { log, withBench, type Step } from './session.ts';
import { openKeptFile, type KeptFile } from './stack/kept-file.ts';

/** Load of growth where no round measured the rate that the service sustains. */
const MODEST_PER_SECOND = 500;

/** Runs `npm run bench -- --growth`. Keeps the results of rounds and soak. */
export async function runGrowth(options: BenchOptions): Promise<BenchResult> {
  const last = await lastResult();
  const { median } = spreadOver(last?.rounds ?? [], (round) => figureOf(round, 'running/sustainedPerSecond'));
  const maximum = options.maximum ?? (Number.isNaN(median) ? 2 * MODEST_PER_SECOND : median);
  const { state, machine } = await runKept<Growth>(options, {
    name: 'growth',
    begin: () => beginGrowth(options, maximum / 2),
    requireSame: (kept) => requireSameGrowth(kept, options),
    isDone: isGrown,
    measure: measureGrowth,
  });
  return await keepPart(options, machine, { growth: state });
}

/** Runs `npm run bench -- --soak`. Keeps the results of rounds and growth. */
export async function runSoak(options: BenchOptions): Promise<BenchResult> {
  const { state, machine } = await runKept<Soak>(options, {
    name: 'soak',
    begin: () => beginSoak(options),
    requireSame: (kept) => requireSameSoak(kept, options),
    isDone: isSoaked,
    measure: measureSoak,
  });
  return await keepPart(options, machine, { soak: state });
}

type Run<State> = {
  readonly name: string;
  readonly begin: () => State;
  readonly requireSame: (kept: State) => void;
  readonly isDone: (state: State) => boolean;
  readonly measure: (bench: Bench, kept: KeptFile<State>, step: Step) => Promise<void>;
};

type Kept<State> = { readonly state: State; machine: Machine | null };

/** Continues the run that the folder holds, or begins one. Starts no server where the run is complete. */
async function runKept<State>(options: BenchOptions, run: Run<State>): Promise<Kept<State>> {
  const file = options.keptIn === undefined ? undefined : join(resolve(options.keptIn), `${run.name}.json`);
  const kept = await openKeptFile<Kept<State>>(file, () => ({ state: run.begin(), machine: null }));
  const { state } = kept.state;
  run.requireSame(state);
  if (run.isDone(state)) {
    log(`${file} holds all of it`);
    return kept.state;
  }
  await withBench(options, async (bench, step) => {
    kept.state.machine ??= await describeMachine(bench.stack);
    await run.measure(bench, { state, save: () => kept.save() }, step);
  });
  return kept.state;
}

async function keepPart(
  options: BenchOptions,
  machine: Machine | null,
  part: Partial<Pick<BenchResult, 'growth' | 'soak'>>,
): Promise<BenchResult> {
  const last = await lastResult();
  if (machine === null) throw new Error('the run does not say on which machine it was');
  const result: BenchResult = {
    ...(last ?? {
      takenAt: new Date().toISOString(),
      machine,
      options,
      rounds: [],
      growth: null,
      soak: null,
      beside: null,
    }),
    ...part,
  };
  await keepResult(result);
  return result;
}
