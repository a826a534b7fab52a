import type { GrowthPoint } from '../measure/growth.ts';
import { median, spreadOf, type Spread } from '../measure/percentile.ts';
import type { Round } from '../measure/round.ts';
import { figureOf, spreadOver, type BenchResult, type FigurePath } from './result.ts';

export type Verdict = 'met' | 'missed' | 'not measured';

export type TargetRow = {
  readonly name: string;
  readonly wanted: string;
  readonly figure: Spread;
  readonly unit: string;
  readonly verdict: Verdict;
};

type Bound = { readonly atLeast: number } | { readonly atMost: number };

/** What the architecture promises, and what was found. */
export function targetsOf({ rounds, growth }: Pick<BenchResult, 'rounds' | 'growth'>): TargetRow[] {
  const of = (name: string, bound: Bound, unit: string, pick: (round: Round) => number): TargetRow =>
    row(name, bound, unit, spreadOver(rounds, pick));
  const ratio = (one: FigurePath, other: FigurePath) => (round: Round) =>
    figureOf(round, one) / figureOf(round, other);
  const figure = (path: FigurePath) => (round: Round) => figureOf(round, path);
  const cost = (name: 'statements' | 'fsyncs' | 'vaultCalls') => (round: Round) =>
    (round.accept?.cost?.[name] ?? Number.NaN) + (round.drain?.cost?.[name] ?? Number.NaN);
  const rate = 'ratePerSecond';
  return [
    of('accepted/s, to bare fastify + zod', { atLeast: 0.5 }, 'x', ratio(`accept/${rate}`, `floor/${rate}`)),
    of(
      'accepted/s, to a transaction per request',
      { atLeast: 3 },
      'x',
      ratio(`accept/${rate}`, `transaction/${rate}`),
    ),
    of('accept to provider call, half load, p50', { atMost: 6 }, 'ms', figure('running/at50.deliverP50Ms')),
    of('accept to provider call, half load, p99', { atMost: 25 }, 'ms', figure('running/at50.deliverP99Ms')),
    of('drain, to a bare undici loop', { atLeast: 0.5 }, 'x', ratio(`drain/${rate}`, `drainLoop/${rate}`)),
    of('drain, to graphile-worker', { atLeast: 1.2 }, 'x', ratio(`drain/${rate}`, `drainGraphile/${rate}`)),
    of('drain, to pg-boss', { atLeast: 3 }, 'x', ratio(`drain/${rate}`, `drainBoss/${rate}`)),
    of('SQL statements per message', { atMost: 0.15 }, '', cost('statements')),
    of('fsyncs per message', { atMost: 0.05 }, '', cost('fsyncs')),
    of('Vault calls per message', { atMost: 0.001 }, '', cost('vaultCalls')),
    ...growthTargets(growth),
    of(
      "quiet tenants' p99 beside a noisy one, to alone",
      { atMost: 1.5 },
      'x',
      ratio('fairness/besideP99Ms', 'fairness/aloneP99Ms'),
    ),
    of(
      'memory per message in flight',
      { atMost: 6 },
      'KB',
      (round) => figureOf(round, 'memory/inFlightBytes') / 1_024,
    ),
  ];
}

function growthTargets(growth: BenchResult['growth']): TargetRow[] {
  const of = (name: string, bound: Bound, points: readonly GrowthPoint[] | undefined): TargetRow[] =>
    (['accept', 'deliver'] as const).map((what) =>
      row(`${WHAT[what]} p99, ${name}`, bound, 'x', growthRatio(points ?? [], `${what}P99Ms`)),
    );
  return [
    ...of('most messages to fewest', { atMost: 1.25 }, growth?.byMessages),
    ...of('most tenants to fewest', { atMost: 1.15 }, growth?.byTenants),
  ];
}

const WHAT = { accept: 'accept', deliver: 'accept to provider' } as const;

/** The largest to the smallest of the same visit. */
export function growthRatio(points: readonly GrowthPoint[], figure: string): Spread {
  const [smallest, largest] = [points[0]?.visits ?? [], points.at(-1)?.visits ?? []];
  return spreadOf(
    largest.map((visit, i) => (visit[figure] ?? Number.NaN) / (smallest[i]?.[figure] ?? Number.NaN)),
  );
}

export function growthMedian({ visits }: GrowthPoint, figure: string): number {
  return median(visits.map((visit) => visit[figure] ?? Number.NaN));
}

function row(name: string, bound: Bound, unit: string, figure: Spread): TargetRow {
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
