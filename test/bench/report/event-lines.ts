import type { ContestantName } from '../contestants.ts';
import type { SendPhase } from '../measure/event-sends.ts';
import type { Round } from '../measure/round.ts';
import { costLines, measuredOf, rateLines, showRatio } from './rate-lines.ts';
import { costOf, figureOf, ownUs, spreadOver } from './result.ts';
import { show, showSpread, table } from './text.ts';

const TELLING = ['eventFloor', 'eventTell'] as const satisfies ContestantName[];

/** Lays out rate and cost of event delivery, its cost for the sends, and its latency. */
export function eventLines(rounds: readonly Round[]): string[] {
  const parts = [
    rateLines(rounds, TELLING, 'eventFloor'),
    costLines(rounds, TELLING),
    sendLines(rounds),
    receiptLines(rounds),
    deadLines(rounds),
  ].filter((lines) => lines.length > 0);
  return parts.flatMap((lines, i) => (i === 0 ? lines : ['', ...lines]));
}

/** The phases without endpoints come before and after the others. */
const WITHOUT = ['before', 'after'] as const satisfies SendPhase[];

/** Returns one round's ratio of processor time per message with an endpoint for all types to that without one. */
export function sendRatio(round: Round, phase: 'matched' | 'told'): number {
  return ownUs(round, 'eventSends', phase) / meanOf(WITHOUT, (one) => ownUs(round, 'eventSends', one));
}

function meanOf(phases: readonly SendPhase[], pick: (phase: SendPhase) => number): number {
  return phases.reduce((sum, phase) => sum + pick(phase), 0) / phases.length;
}

const OWN = ['api', 'worker', 'postgres', 'nats'];

function sendLines(rounds: readonly Round[]): string[] {
  if (measuredOf(rounds, ['eventSends']).length === 0) return [];
  const offered = spreadOver(rounds, (round) => figureOf(round, 'eventSends/offeredPerSecond')).median;
  const row = (words: string, phases: readonly SendPhase[], ratio: string): string[] => {
    const costs = phases.map((phase) => costOf(rounds, 'eventSends', phase));
    const mean = (pick: (cost: (typeof costs)[number]) => number | undefined): string =>
      show(costs.reduce((sum, cost) => sum + (pick(cost) ?? Number.NaN), 0) / costs.length);
    return [
      words,
      ...OWN.map((process) => mean((cost) => cost?.cpuUs?.[process])),
      show(spreadOver(rounds, (round) => meanOf(phases, (one) => ownUs(round, 'eventSends', one))).median),
      ratio,
      mean((cost) => cost?.walBytes),
      show(
        spreadOver(rounds, (round) =>
          meanOf(phases, (one) => figureOf(round, `eventSends/${one}DeliverP99Ms`)),
        ).median,
      ),
    ];
  };
  const ratio = (phase: 'matched' | 'told'): string =>
    showSpread(
      spreadOver(rounds, (round) => sendRatio(round, phase)),
      'x',
    );
  return [
    `What a message costs with all that follows from it, at ${show(offered)} messages a second:`,
    '',
    ...table(
      [
        'each tenant has',
        ...OWN.map((process) => `${process} µs`),
        'sum µs',
        'to none',
        'WAL bytes',
        '202 to provider, p99 ms',
      ],
      [
        row('no endpoint', WITHOUT, ''),
        row('one that takes all types, paused', ['matched'], ratio('matched')),
        row('one that takes all types, called', ['told'], ratio('told')),
      ],
    ),
  ];
}

function receiptLines(rounds: readonly Round[]): string[] {
  if (measuredOf(rounds, ['eventReceipts']).length === 0) return [];
  const of = (figure: string): string =>
    showSpread(spreadOver(rounds, (round) => figureOf(round, `eventReceipts/${figure}`)));
  return [
    `From the answer to a receipt to the tenant's endpoint, beside as many sends, ${of('offeredPerSecond')} a second of each:`,
    `p50 ${of('p50Ms')} ms, p99 ${of('p99Ms')} ms.`,
  ];
}

function deadLines(rounds: readonly Round[]): string[] {
  if (measuredOf(rounds, ['eventDead']).length === 0) return [];
  const row = (words: string, figure: string): string[] => [
    words,
    ...['well', 'dead'].map((when) =>
      showSpread(spreadOver(rounds, (round) => figureOf(round, `eventDead/${when}${figure}Ms`))),
    ),
    showRatio(rounds, `eventDead/dead${figure}Ms`, `eventDead/well${figure}Ms`),
  ];
  return table(
    ['from an event to the other endpoints', 'all are well, ms', 'one of 100 is dead, ms', ''],
    [row('p50', 'P50'), row('p99', 'P99')],
  );
}
