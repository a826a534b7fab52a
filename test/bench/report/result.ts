import type { Beside } from '../measure/beside.ts';
import type { ContestantName } from '../contestants.ts';
import { growthLedger, type Growth } from '../measure/growth.ts';
import type { Ledger } from '../measure/ledger.ts';
import { sumLedgers } from '../measure/ledger.ts';
import type { Machine } from '../measure/machine.ts';
import { ownUsOf, type Cost } from '../measure/meter.ts';
import { spreadOf, type Spread } from '../measure/percentile.ts';
import { soakLedger, type Soak } from '../measure/soak.ts';
import type { Round } from '../measure/round.ts';
import type { BenchOptions } from '../options.ts';

/** All results of a run; the reports are computed from it alone. */
export type BenchResult = {
  readonly takenAt: string;
  readonly machine: Machine;
  readonly options: BenchOptions;
  readonly rounds: readonly Round[];
  readonly growth: Growth | null;
  readonly soak: Soak | null;
  readonly beside: Beside | null;
};

/** A contestant and one of its figures, such as `accept/ratePerSecond`. */
export type FigurePath = `${ContestantName}/${string}`;

/** Returns one round's figure; NaN where the contestant was not measured. @throws when a measured contestant lacks the figure. */
export function figureOf(round: Round, path: FigurePath): number {
  const [name, figure] = path.split('/') as [ContestantName, string];
  const measured = round[name];
  if (measured === undefined) return Number.NaN;
  const value: number | null | undefined = measured.figures[figure];
  if (value === undefined) throw new Error(`no figure ${path}`);
  // A file holds NaN as null.
  return value ?? Number.NaN;
}

/** Returns the spread over the rounds that measured it. */
export function spreadOver(rounds: readonly Round[], pick: (round: Round) => number): Spread {
  return spreadOf(rounds.map(pick).filter((value) => !Number.isNaN(value)));
}

/**
 * Returns the median costs per message of a contestant: at its maximum rate, at a part of the load in percent, or under other
 * conditions by their name.
 */
export function costOf(
  rounds: readonly Round[],
  name: ContestantName,
  load?: number | string,
): Cost | undefined {
  const costs = rounds.map((round) => roundCost(round, name, load)).filter((cost) => cost !== undefined);
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

function roundCost(round: Round, name: ContestantName, load?: number | string): Cost | undefined {
  return load === undefined ? round[name]?.cost : round[name]?.costAt?.[load];
}

/**
 * Returns one round's processor time per message over all processes of a contestant, in microseconds; NaN where it was not
 * measured.
 */
export function ownUs(round: Round, name: ContestantName, load?: number | string): number {
  return ownUsOf(roundCost(round, name, load));
}

export function ledgerOfResult({ rounds, growth, soak }: Findings): Ledger {
  const measured = rounds.flatMap((round) => Object.values(round).map(({ ledger }) => ledger));
  const kept = [
    growth === null ? undefined : growthLedger(growth),
    soak === null ? undefined : soakLedger(soak),
  ];
  return sumLedgers([...measured, ...kept].filter((ledger) => ledger !== undefined));
}

/** The results without the machine that they were measured on. */
export type Findings = Pick<BenchResult, 'rounds' | 'growth' | 'soak'>;

/** Lists the answers other than 202, by contestant. */
export function refusalsOf(rounds: readonly Round[]): string[] {
  return rounds.flatMap((round) =>
    Object.entries(round).flatMap(([name, { refused = {} }]) =>
      Object.entries(refused).map(([status, count]) => `${name}: ${status}, ${count} times`),
    ),
  );
}
