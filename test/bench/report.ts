import { median } from './percentile.ts';
import type { AcceptMeasure, DrainMeasure, Ledger, RunningMeasure } from './measurements.ts';
import type { Cost } from './meter.ts';

/** All measurements of one round. */
export type Round = {
  readonly floor: AcceptMeasure;
  readonly stopped: AcceptMeasure;
  readonly transaction: AcceptMeasure;
  readonly running: RunningMeasure;
  readonly worker: DrainMeasure & { readonly ledger: Ledger };
  readonly loop: DrainMeasure;
};

export type Target = {
  readonly name: string;
  readonly target: string;
  readonly figure: number;
  readonly unit: string;
  readonly isMet: boolean;
};

export type Report = {
  readonly figures: readonly { readonly name: string; readonly figure: number; readonly unit: string }[];
  readonly targets: readonly Target[];
  readonly costs: readonly { readonly name: string; readonly cost: Cost }[];
  readonly ledger: Ledger;
};

/** Medians over the rounds; a ratio is taken within each round, so that a slow moment of the machine hits both sides. */
export function reportOf(rounds: readonly Round[]): Report {
  const of = (pick: (round: Round) => number): number => median(rounds.map(pick));
  const statements = of(({ stopped, worker }) => stopped.cost.statements + worker.cost.statements);
  const fsyncs = of(({ stopped, worker }) => stopped.cost.fsyncs + worker.cost.fsyncs);
  return {
    figures: [
      { name: 'accept, floor', figure: of((r) => r.floor.ratePerSecond), unit: '/s' },
      { name: 'accept, worker stopped', figure: of((r) => r.stopped.ratePerSecond), unit: '/s' },
      { name: 'accept, worker stopped: p50', figure: of((r) => r.stopped.p50Ms), unit: 'ms' },
      { name: 'accept, worker stopped: p99', figure: of((r) => r.stopped.p99Ms), unit: 'ms' },
      { name: 'accept, worker running', figure: of((r) => r.running.accept.ratePerSecond), unit: '/s' },
      { name: 'delivered meanwhile', figure: of((r) => r.running.accept.deliveredPerSecond), unit: '/s' },
      { name: 'accept, transaction per request', figure: of((r) => r.transaction.ratePerSecond), unit: '/s' },
      { name: 'drain, worker', figure: of((r) => r.worker.ratePerSecond), unit: '/s' },
      { name: 'drain, undici loop', figure: of((r) => r.loop.ratePerSecond), unit: '/s' },
      { name: 'half load', figure: of((r) => r.running.latency.offeredPerSecond), unit: '/s' },
      {
        name: 'request to provider, half load: p50',
        figure: of((r) => r.running.latency.fromRequestP50Ms),
        unit: 'ms',
      },
      {
        name: 'request to provider, half load: p99',
        figure: of((r) => r.running.latency.fromRequestP99Ms),
        unit: 'ms',
      },
      {
        name: 'accept, worker running, to floor',
        figure: of((r) => r.running.accept.ratePerSecond / r.floor.ratePerSecond),
        unit: 'x',
      },
    ],
    targets: [
      atLeast(
        'accept, worker stopped, to floor',
        0.5,
        of((r) => r.stopped.ratePerSecond / r.floor.ratePerSecond),
      ),
      atLeast(
        'accept, worker stopped, to transaction per request',
        3,
        of((r) => r.stopped.ratePerSecond / r.transaction.ratePerSecond),
      ),
      atMost(
        'accept to provider, half load: p50',
        6,
        of((r) => r.running.latency.p50Ms),
        'ms',
      ),
      atMost(
        'accept to provider, half load: p99',
        25,
        of((r) => r.running.latency.p99Ms),
        'ms',
      ),
      atLeast(
        'drain, worker, to undici loop',
        0.5,
        of((r) => r.worker.ratePerSecond / r.loop.ratePerSecond),
      ),
      atMost('SQL statements of a message, accept and delivery', 0.15, statements, ''),
      atMost('fsyncs of a message, accept and delivery', 0.05, fsyncs, ''),
    ],
    costs: [
      { name: 'accept, floor', cost: medianCost(rounds.map((r) => r.floor.cost)) },
      { name: 'accept, worker stopped', cost: medianCost(rounds.map((r) => r.stopped.cost)) },
      { name: 'accept, transaction per request', cost: medianCost(rounds.map((r) => r.transaction.cost)) },
      { name: 'accept, worker running', cost: medianCost(rounds.map((r) => r.running.accept.cost)) },
      { name: 'drain, worker', cost: medianCost(rounds.map((r) => r.worker.cost)) },
      { name: 'drain, undici loop', cost: medianCost(rounds.map((r) => r.loop.cost)) },
    ],
    ledger: rounds
      .flatMap((r) => [r.running.ledger, r.worker.ledger])
      .reduce((a, b) => ({ lost: a.lost + b.lost, repeated: a.repeated + b.repeated })),
  };
}

/** For people. */
export function printReport({ figures, targets, costs, ledger }: Report, refused: string): string {
  const processes = [...new Set(costs.flatMap(({ cost }) => Object.keys(cost.cpuUs ?? {})))];
  return [
    '',
    ...table(
      ['target', 'wanted', 'figure', ''],
      targets.map((t) => [t.name, t.target, show(t.figure, t.unit), t.isMet ? 'met' : 'MISSED']),
    ),
    '',
    ...table(
      ['median of the rounds', 'figure'],
      figures.map((f) => [f.name, show(f.figure, f.unit)]),
    ),
    '',
    ...table(
      ['per message', ...processes.map((name) => `${name} µs`), 'WAL bytes', 'statements', 'fsyncs'],
      costs.map(({ name, cost }) => [
        name,
        ...processes.map((process) => show(cost.cpuUs?.[process] ?? Number.NaN, '')),
        ...[cost.walBytes, cost.statements, cost.fsyncs].map((value) => show(value, '')),
      ]),
    ),
    '',
    `messages lost ${ledger.lost}, sent twice ${ledger.repeated}${refused === '' ? '' : `; refused: ${refused}`}`,
    '',
  ].join('\n');
}

function atLeast(name: string, wanted: number, figure: number): Target {
  return { name, target: `>= ${wanted} x`, figure, unit: 'x', isMet: figure >= wanted };
}

function atMost(name: string, wanted: number, figure: number, unit: string): Target {
  return { name, target: `<= ${wanted} ${unit}`.trim(), figure, unit, isMet: figure <= wanted };
}

function medianCost(costs: readonly Cost[]): Cost {
  const of = (pick: (cost: Cost) => number): number => median(costs.map(pick));
  const processes = costs[0]?.cpuUs;
  const cpuUs =
    processes === undefined || processes === null
      ? null
      : Object.fromEntries(
          Object.keys(processes).map((name) => [name, of((cost) => cost.cpuUs?.[name] ?? Number.NaN)]),
        );
  return {
    cpuUs,
    walBytes: of((cost) => cost.walBytes),
    statements: of((cost) => cost.statements),
    fsyncs: of((cost) => cost.fsyncs),
  };
}

function show(value: number, unit: string): string {
  if (Number.isNaN(value)) return '–';
  const digits = value >= 100 ? 0 : value >= 10 ? 1 : value >= 1 ? 2 : 3;
  return `${value.toFixed(digits)} ${unit}`.trim();
}

function table(head: readonly string[], rows: readonly (readonly string[])[]): string[] {
  const widths = head.map((cell, i) => Math.max(cell.length, ...rows.map((row) => row[i]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    cells
      .map((cell, i) => (i === 0 ? cell.padEnd(widths[i] ?? 0) : cell.padStart(widths[i] ?? 0)))
      .join('  ')
      .trimEnd();
  return [line(head), widths.map((width) => '-'.repeat(width)).join('  '), ...rows.map(line)];
}
