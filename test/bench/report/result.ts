import type { Beside } from '../measure/beside.ts';
import type { ContestantName } from '../contestants.ts';
import { growthLedger, type Growth } from '../measure/growth.ts';
import type { Ledger } from '../measure/ledger.ts';
import { sumLedgers } from '../measure/ledger.ts';
import type { Machine } from '../measure/machine.ts';
import type { Cost } from '../measure/meter.ts';
import { spreadOf, type Spread } from '../measure/percentile.ts';
import { soakLedger, type Soak } from '../measure/soak.ts';
import type { Round } from '../measure/round.ts';
import type { BenchOptions } from '../options.ts';

/** All that a run found; everything printed is computed from it. */
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

/** The medians of what a contestant's messages cost: as fast as it goes, at a part of the load in percent, or on other terms by their name. */
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

/** What a contestant itself uses: neither load generator nor stand-in nor Vault, which is not asked with credentials cached. */
const OWN_PROCESSES = ['api', 'worker', 'postgres', 'nats'];

/** One round's microseconds of processor time per message in all processes of a contestant; not a number where it was not measured. */
export function ownUs(round: Round, name: ContestantName, load?: number | string): number {
  return ownUsOf(roundCost(round, name, load));
}

export function ownUsOf(cost: Cost | undefined): number {
  const cpuUs = cost?.cpuUs ?? null;
  if (cpuUs === null) return Number.NaN;
  return OWN_PROCESSES.reduce((sum, process) => sum + (cpuUs[process] ?? 0), 0);
}

export function ledgerOfResult({ rounds, growth, soak }: Findings): Ledger {
  const measured = rounds.flatMap((round) => Object.values(round).map(({ ledger }) => ledger));
  const kept = [
    growth === null ? undefined : growthLedger(growth),
    soak === null ? undefined : soakLedger(soak),
  ];
  return sumLedgers([...measured, ...kept].filter((ledger) => ledger !== undefined));
}

/** What was found, whatever machine it was found on. */
export type Findings = Pick<BenchResult, 'rounds' | 'growth' | 'soak'>;

/** Whatever was not a 202, by contestant. */
export function refusalsOf(rounds: readonly Round[]): string[] {
  return rounds.flatMap((round) =>
    Object.entries(round).flatMap(([name, { refused = {} }]) =>
      Object.entries(refused).map(([status, count]) => `${name}: ${status}, ${count} times`),
    ),
  );
}
