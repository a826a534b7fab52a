import type { ContestantName } from '../contestants.ts';
import { LOADS } from '../measure/running.ts';
import type { Round } from '../measure/round.ts';
import { besideLines } from './beside-lines.ts';
import { eventLines } from './event-lines.ts';
import { growthLines, plantedLines } from './growth-lines.ts';
import { figureAt, loadCostLines, loadLatencyLines } from './load-lines.ts';
import { figureOf, spreadOver, type BenchResult, type FigurePath } from './result.ts';
import { costLines, measuredOf, rateLines, showRatio } from './rate-lines.ts';
import { receiptLines } from './receipt-lines.ts';
import { soakLines } from './soak-lines.ts';
import { targetsOf } from './targets.ts';
import { show, showSpread, table } from './text.ts';

/** A heading and its lines. */
export type Section = { readonly title: string; readonly lines: readonly string[] };

const ACCEPTING = [
  'floor',
  'floor64',
  'insertBatch',
  'insertEach',
  'accept',
  'accept64',
  'acceptBatch',
  'running',
  'bare',
  'runningGraphile',
  'runningBoss',
  'transaction',
  'acceptGraphile',
  'acceptBoss',
  'rows',
  'publish',
] as const satisfies ContestantName[];

const DRAINING = [
  'drainLoop',
  'drain',
  'drainSnapshot',
  'drainGraphile',
  'drainGraphileBare',
  'drainBoss',
] as const satisfies ContestantName[];

/** Returns the figures of a run; what was not measured is left out. */
export function sectionsOf(result: BenchResult): Section[] {
  const { rounds, growth, soak, beside } = result;
  return [
    { title: 'Targets', lines: targetLines(result) },
    { title: 'What bounds the targets', lines: boundLines(rounds) },
    { title: 'Accepting', lines: rateLines(rounds, ACCEPTING, 'floor') },
    { title: 'Draining a backlog', lines: rateLines(rounds, DRAINING, 'drainLoop') },
    { title: 'What a message costs', lines: costLines(rounds, [...ACCEPTING, ...DRAINING]) },
    { title: 'What a message costs at parts of the load', lines: loadCostLines(rounds) },
    { title: 'Latency', lines: latencyLines(rounds) },
    { title: 'Latency beside others', lines: loadLatencyLines(rounds) },
    { title: 'Beside an earlier state', lines: beside === null ? [] : besideLines(rounds, beside) },
    { title: 'Receipts', lines: receiptLines(rounds) },
    { title: 'Events', lines: eventLines(rounds) },
    { title: 'Fairness', lines: fairnessLines(rounds) },
    { title: 'Memory', lines: memoryLines(rounds) },
    ...(growth === null
      ? []
      : [
          { title: 'Growth in messages', lines: growthLines(growth.byMessages, 'messages') },
          { title: 'Growth in tenants', lines: growthLines(growth.byTenants, 'tenants') },
          { title: 'Beside what else is stored', lines: plantedLines(growth.byPlanted) },
        ]),
    { title: 'Soak', lines: soak === null ? [] : soakLines(soak) },
  ].filter(({ lines }) => lines.length > 0);
}

function targetLines(result: BenchResult): string[] {
  return table(
    ['target', 'wanted', 'found', ''],
    targetsOf(result).map(({ name, wanted, figure, unit, verdict }) => [
      name,
      wanted,
      showSpread(figure, unit),
      verdict,
    ]),
  );
}

/** Lays out the limits of this machine that no queue can exceed, and the figures that do not depend on the queue. */
function boundLines(rounds: readonly Round[]): string[] {
  const ratio = (one: FigurePath, other: FigurePath): string => showRatio(rounds, one, other);
  const drains = measuredOf(rounds, ['drainLoop', 'drainGraphile', 'drainBoss']).length === 3;
  return [
    ...(drains
      ? table(
          ['a bare undici loop, without any queue', ''],
          [
            ['to graphile-worker', ratio('drainLoop/ratePerSecond', 'drainGraphile/ratePerSecond')],
            ['to pg-boss', ratio('drainLoop/ratePerSecond', 'drainBoss/ratePerSecond')],
          ],
        )
      : []),
    ...(measuredOf(rounds, ['fairness']).length > 0
      ? [
          '',
          ...table(
            ["quiet tenants' p99 beside a noisy one", ''],
            [
              ['to alone', ratio('fairness/besideP99Ms', 'fairness/aloneP99Ms')],
              ['to the same load without a noisy one', ratio('fairness/besideP99Ms', 'fairness/evenP99Ms')],
            ],
          ),
        ]
      : []),
  ];
}

function latencyLines(rounds: readonly Round[]): string[] {
  if (measuredOf(rounds, ['running']).length === 0) return [];
  const of = (path: FigurePath): string => show(spreadOver(rounds, (round) => figureOf(round, path)).median);
  const at = (load: number, figure: string): string =>
    show(spreadOver(rounds, (round) => figureAt(round, 'running', load, figure)).median);
  const kinds = [
    ['accept', 'request to 202'],
    ['deliver', '202 to provider'],
    ['request', 'request to provider'],
  ] as const;
  return [
    `The whole service keeps up with ${of('running/sustainedPerSecond')} messages a second; in milliseconds at parts of that:`,
    '',
    ...table(
      ['load', 'per second', 'cores busy', '', 'p50', 'p99', 'p99.9'],
      LOADS.flatMap((load) =>
        kinds.map(([kind, words], i) => [
          i === 0 ? `${load} %` : '',
          i === 0 ? at(load, 'offeredPerSecond') : '',
          i === 0 ? at(load, 'coresBusy') : '',
          words,
          ...['P50', 'P99', 'P999'].map((p) => at(load, `${kind}${p}Ms`)),
        ]),
      ),
    ),
  ];
}

function fairnessLines(rounds: readonly Round[]): string[] {
  if (measuredOf(rounds, ['fairness']).length === 0) return [];
  const of = (figure: string): string =>
    showSpread(spreadOver(rounds, (round) => figureOf(round, `fairness/${figure}`)));
  return [
    ...table(
      ['quiet tenants, 202 to provider', 'p50 ms', 'p99 ms'],
      [
        ['alone', of('aloneP50Ms'), of('aloneP99Ms')],
        ['beside one that offers 100 times as much', of('besideP50Ms'), of('besideP99Ms')],
        ['control: the ten share that total evenly', of('evenP50Ms'), of('evenP99Ms')],
        ["while that one's backlog drains", of('behindP50Ms'), of('behindP99Ms')],
      ],
    ),
    '',
    `Jain index of what each of the ten tenants had delivered of what it offered: ${of('besideJain')}.`,
  ];
}

function memoryLines(rounds: readonly Round[]): string[] {
  if (measuredOf(rounds, ['memory']).length === 0) return [];
  const of = (figure: string, per: number, unit: string): string =>
    showSpread(
      spreadOver(rounds, (round) => figureOf(round, `memory/${figure}`) / per),
      unit,
    );
  return table(
    ['', 'found'],
    [
      ['messages in flight while weighed', of('inFlight', 1, '')],
      ['held per message in flight', of('inFlightBytes', 1_024, 'KB')],
      ['held per call of a bare undici loop', of('bareCallBytes', 1_024, 'KB')],
      ['resident per message in flight', of('inFlightResidentBytes', 1_024, 'KB')],
      ['held per known tenant, worker', of('workerTenantBytes', 1_024, 'KB')],
      ['held per known tenant, api', of('apiTenantBytes', 1_024, 'KB')],
      ['resident, idle worker', of('workerResidentBytes', 1_048_576, 'MB')],
      ['resident, idle api', of('apiResidentBytes', 1_048_576, 'MB')],
    ],
  );
}
