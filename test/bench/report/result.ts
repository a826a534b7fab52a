import type { ContestantName } from '../contestants.ts';
import type { Growth } from '../measure/growth.ts';
import type { Ledger } from '../measure/ledger.ts';
import { sumLedgers } from '../measure/ledger.ts';
import type { Machine } from '../measure/machine.ts';
import type { Cost } from '../measure/meter.ts';
import { spreadOf, type Spread } from '../measure/percentile.ts';
import type { Round } from '../measure/round.ts';
import type { BenchOptions } from '../options.ts';

/** All that a run found; everything printed is computed from it. */
export type BenchResult = {
  readonly takenAt: string;
  readonly machine: Machine;
  readonly options: BenchOptions;
  readonly rounds: readonly Round[];
  readonly growth: Growth | null;
};

/** A contestant and one of its figures, such as `accept/ratePerSecond`. */
export type FigurePath = `${ContestantName}/${string}`;

/** One round's figure; not a number where the contestant was not measured. @throws when it was and has no such figure. */
export function figureOf(round: Round, path: FigurePath): number {
  const [name, figure] = path.split('/') as [ContestantName, string];
  const measured = round[name];
  if (measured === undefined) return Number.NaN;
  const value: number | null | undefined = measured.figures[figure];
  if (value === undefined) throw new Error(`no figure ${path}`);
  // What is not a number comes back from a file as null.
  return value ?? Number.NaN;
}

/** Over the rounds in which it was measured. */
export function spreadOver(rounds: readonly Round[], pick: (round: Round) => number): Spread {
  return spreadOf(rounds.map(pick).filter((value) => !Number.isNaN(value)));
}

/** The medians of what a contestant's messages cost. */
export function costOf(rounds: readonly Round[], name: ContestantName): Cost | undefined {
  const costs = rounds.map((round) => round[name]?.cost).filter((cost) => cost !== undefined);
  if (costs.length === 0) return undefined;
  const of = (pick: (cost: Cost) => number): number => spreadOf(costs.map(pick)).median;
  const processes = costs[0]?.cpuUs ?? null;
  return {
    cpuUs:
      processes === null
        ? null
        : Object.fromEntries(
            Object.keys(processes).map((process) => [
              process,
              of(({ cpuUs }) => cpuUs?.[process] ?? Number.NaN),
            ]),
          ),
    walBytes: of(({ walBytes }) => walBytes),
    statements: of(({ statements }) => statements),
    fsyncs: of(({ fsyncs }) => fsyncs),
    vaultCalls: of(({ vaultCalls }) => vaultCalls),
  };
}

export function ledgerOfResult({ rounds, growth }: Pick<BenchResult, 'rounds' | 'growth'>): Ledger {
  const measured = rounds.flatMap((round) => Object.values(round).map(({ ledger }) => ledger));
  return sumLedgers([...measured, growth?.ledger].filter((ledger) => ledger !== undefined));
}

/** Whatever was not a 202, by contestant. */
export function refusalsOf(rounds: readonly Round[]): string[] {
  return rounds.flatMap((round) =>
    Object.entries(round).flatMap(([name, { refused = {} }]) =>
      Object.entries(refused).map(([status, count]) => `${name}: ${status}, ${count} times`),
    ),
  );
}
