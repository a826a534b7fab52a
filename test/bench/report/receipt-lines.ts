import type { ContestantName } from '../contestants.ts';
import type { Round } from '../measure/round.ts';
import { costLines, measuredOf, rateLines, showRatio } from './rate-lines.ts';
import { figureOf, spreadOver } from './result.ts';
import { showSpread, table } from './text.ts';

const TAKING_IN = ['receiptFloor', 'receiptIntake'] as const satisfies ContestantName[];
const APPLYING = ['drain', 'receiptApply'] as const satisfies ContestantName[];

/** Lays out rate and cost of receipt intake and receipt application, and the effect of a receipt storm on other tenants. */
export function receiptLines(rounds: readonly Round[]): string[] {
  const parts = [
    rateLines(rounds, TAKING_IN, 'receiptFloor'),
    // The drain has a table of its own.
    measuredOf(rounds, ['receiptApply']).length === 0 ? [] : rateLines(rounds, APPLYING, 'drain'),
    costLines(rounds, ['receiptFloor', 'receiptIntake', 'receiptApply']),
    stormLines(rounds),
  ].filter((lines) => lines.length > 0);
  return parts.flatMap((lines, i) => (i === 0 ? lines : ['', ...lines]));
}

function stormLines(rounds: readonly Round[]): string[] {
  if (measuredOf(rounds, ['receiptStorm']).length === 0) return [];
  const of = (figure: string): string =>
    showSpread(spreadOver(rounds, (round) => figureOf(round, `receiptStorm/${figure}`)));
  const row = (words: string, figure: string): string[] => [
    words,
    of(`calm${figure}Ms`),
    of(`storm${figure}Ms`),
    showRatio(rounds, `receiptStorm/storm${figure}Ms`, `receiptStorm/calm${figure}Ms`),
  ];
  return [
    ...table(
      ['tenants beside a storm of receipts', 'without it, ms', 'with it, ms', ''],
      [
        row('request to 202, p50', 'AcceptP50'),
        row('request to 202, p99', 'AcceptP99'),
        row('202 to provider, p50', 'DispatchP50'),
        row('202 to provider, p99', 'DispatchP99'),
      ],
    ),
    '',
    `Receipts taken in by the storm: ${of('receiptsTaken')}, ${of('receiptsPerSecond')} a second.`,
  ];
}
