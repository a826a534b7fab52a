import { commitOf, isOtherFirst, measureBeside } from './measure/beside.ts';
import { describeMachine } from './measure/machine.ts';
import { measureRound, type Round } from './measure/round.ts';
import type { BenchOptions } from './options.ts';
import { keepResult, lastResult } from './report/kept-result.ts';
import { figureOf, type BenchResult } from './report/result.ts';
import { withBench } from './session.ts';

/** Runs `npm run bench`: every chosen contestant in each round. Keeps the results of growth and soak. */
export async function runRounds(options: BenchOptions): Promise<BenchResult> {
  const last = await lastResult();
  const resumed = options.resumes ? last : undefined;
  if (options.resumes && (resumed === undefined || resumed.rounds.length === 0))
    throw new TypeError('--resume found no round in .despatch/bench.json');
  return await withBench(options, async (bench, step) => {
    const rounds: Round[] = [...(resumed?.rounds ?? [])];
    const wanted = resumed?.rounds.length ?? options.rounds;
    // A resumed result keeps the time and machine that its rounds were measured with.
    const { takenAt, machine } = resumed ?? {
      takenAt: new Date().toISOString(),
      machine: await describeMachine(bench.stack),
    };
    const beside =
      options.beside === undefined
        ? undefined
        : { commit: await commitOf(options.beside), rounds: [...(resumed?.beside?.rounds ?? [])] };
    const result: BenchResult = {
      takenAt,
      machine,
      options: resumed?.options ?? options,
      growth: last?.growth ?? null,
      soak: last?.soak ?? null,
      beside: beside ?? resumed?.beside ?? null,
      rounds,
    };
    for (let number = 1; number <= wanted; number++) {
      const note = (name: string): void => step(`round ${number} of ${wanted}: ${name}`);
      const measureOwn = async (): Promise<void> => {
        rounds[number - 1] = await measureRound(bench, number, rounds[number - 1] ?? {}, note);
      };
      const measureOther = async (): Promise<void> => {
        if (options.beside === undefined || beside === undefined) return;
        note(`the same in ${options.beside}`);
        const maximum = options.maximum ?? figureOf(rounds[number - 1] ?? {}, 'running/sustainedPerSecond');
        const found = await measureBeside(options.beside, options, number, maximum);
        beside.rounds[number - 1] = { ...beside.rounds[number - 1], ...found };
      };
      const order = isOtherFirst(options, number) ? [measureOther, measureOwn] : [measureOwn, measureOther];
      for (const measure of order) await measure();
      // Saves the result after each round, because a later round may fail.
      await keepResult(result);
    }
    return result;
  });
}
