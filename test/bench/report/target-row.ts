import { spreadOver, figureOf, type FigurePath } from './result.ts';
import type { Round } from '../measure/round.ts';
import type { Spread } from '../measure/percentile.ts';

export type Verdict = 'met' | 'missed' | 'not measured';

export type TargetRow = {
  readonly name: string;
  readonly wanted: string;
  readonly figure: Spread;
  readonly unit: string;
  readonly verdict: Verdict;
};

type Bound = { readonly atLeast: number } | { readonly atMost: number };

type TargetOverRounds = readonly [name: string, bound: Bound, unit: string, pick: (round: Round) => number];

/** Judges each target by the median of the rounds that measured it. */
export function targetsOver(rounds: readonly Round[], targets: readonly TargetOverRounds[]): TargetRow[] {
  return targets.map(([name, bound, unit, pick]) => row(name, bound, unit, spreadOver(rounds, pick)));
}

/** Returns a function that computes the ratio of two figures of the same round. */
export function ratio(one: FigurePath, other: FigurePath): (round: Round) => number {
  return (round) => figureOf(round, one) / figureOf(round, other);
}

/** Returns the target's bound, the figure found, and the verdict. */
export function row(name: string, bound: Bound, unit: string, figure: Spread): TargetRow {
  const [sign, value] = 'atLeast' in bound ? ['≥', bound.atLeast] : ['≤', bound.atMost];
  return {
    name,
    wanted: `${sign} ${value} ${unit}`.trim(),
    figure,
    unit,
    verdict: verdictOf(figure.median, bound),
  };
}

function verdictOf(value: number, bound: Bound): Verdict {
  if (Number.isNaN(value)) return 'not measured';
  const isMet = 'atLeast' in bound ? value >= bound.atLeast : value <= bound.atMost;
  return isMet ? 'met' : 'missed';
}
