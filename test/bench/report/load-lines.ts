import { CONTESTANTS, type ContestantName } from '../contestants.ts';
import type { Round } from '../measure/round.ts';
import { LOADS } from '../measure/running.ts';
import { ownUsOf } from '../measure/meter.ts';
import { costOf, figureOf, ownUs, spreadOver, type FigurePath } from './result.ts';
import { show, showSpread, table } from './text.ts';

/** The contestants that accept and deliver at the same time: the service first, the others at its rates. */
const RUNNING = ['running', 'bare', 'runningGraphile', 'runningBoss'] as const satisfies ContestantName[];

const PROCESSES = ['api', 'worker', 'postgres', 'nats'];
const AROUND = ['vault', 'provider', 'load'];

/**
 * Lays out processor time, statements and fsyncs per message at parts of the load, with the service's ratio to each other
 * contestant.
 */
export function loadCostLines(rounds: readonly Round[]): string[] {
  const found = runningOf(rounds);
  if (found.length === 0) return [];
  const rows = LOADS.flatMap((load) =>
    found.flatMap((name) => {
      const cost = costOf(rounds, name, load);
      if (cost === undefined) return [];
      const us = (process: string): string => show(cost.cpuUs?.[process] ?? Number.NaN);
      return [
        [
          `${load} %: ${CONTESTANTS[name]}`,
          show(atLoad(rounds, name, load, 'offeredPerSecond')),
          ...PROCESSES.map(us),
          show(spreadOver(rounds, (round) => ownUs(round, name, load)).median),
          showRatio(rounds, (round, of) => ownUs(round, of, load), name),
          ...AROUND.map(us),
          ...[cost.walBytes, cost.statements, cost.fsyncs].map((value) => show(value)),
        ],
      ];
    }),
  );
  const saturated = costOf(rounds, 'running');
  return [
    ...(saturated === undefined
      ? []
      : [
          `Saturated, Despatch uses ${show(ownUsOf(saturated))} µs a message in api, worker, Postgres and NATS together.`,
          '',
        ]),
    ...table(
      [
        'load',
        'per second',
        ...PROCESSES.map((process) => `${process} µs`),
        'sum µs',
        'Despatch to it',
        ...AROUND.map((process) => `${process} µs`),
        'WAL bytes',
        'statements',
        'fsyncs',
      ],
      rows,
    ),
  ];
}

/** Lays out the latency from acceptance to the call at the same rates, with the service's ratio to each other contestant. */
export function loadLatencyLines(rounds: readonly Round[]): string[] {
  const found = runningOf(rounds);
  if (found.length < 2) return [];
  return [
    ...table(
      ['202 to provider', 'keeps up with', 'p50 ms', 'p99 ms', 'p50, Despatch to it', 'p99, Despatch to it'],
      LOADS.flatMap((load) =>
        found.map((name) => [
          `${load} %: ${CONTESTANTS[name]}`,
          show(spreadOver(rounds, (round) => figureOf(round, `${name}/sustainedPerSecond`)).median, '/s'),
          ...['deliverP50Ms', 'deliverP99Ms'].map((figure) => show(atLoad(rounds, name, load, figure))),
          ...['deliverP50Ms', 'deliverP99Ms'].map((figure) =>
            showRatio(rounds, (round, of) => figureAt(round, of, load, figure), name),
          ),
        ]),
      ),
    ),
    '',
    'A dash: more than that contestant keeps up with, so that its latency would say how long the measurement was.',
  ];
}

/** Returns one round's figure at a part of the load; NaN where the contestant did not sustain it. */
export function figureAt(round: Round, name: ContestantName, load: number, figure: string): number {
  const path: FigurePath = `${name}/at${load}.${figure}`;
  return round[name]?.figures[`at${load}.${figure}`] === undefined ? Number.NaN : figureOf(round, path);
}

function atLoad(rounds: readonly Round[], name: ContestantName, load: number, figure: string): number {
  return spreadOver(rounds, (round) => figureAt(round, name, load, figure)).median;
}

function runningOf(rounds: readonly Round[]): ContestantName[] {
  return RUNNING.filter((name) => rounds.some((round) => round[name] !== undefined));
}

function showRatio(
  rounds: readonly Round[],
  pick: (round: Round, name: ContestantName) => number,
  name: ContestantName,
): string {
  if (name === 'running') return '';
  return showSpread(
    spreadOver(rounds, (round) => pick(round, 'running') / pick(round, name)),
    'x',
  );
}
