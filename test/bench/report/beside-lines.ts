import type { Beside } from '../measure/beside.ts';
import type { Round } from '../measure/round.ts';
import { LOADS } from '../measure/running.ts';
import { figureAt } from './load-lines.ts';
import { figureOf, ownUs, spreadOver } from './result.ts';
import { show, showSpread, table } from './text.ts';

const RATES = [
  ['accepted per second', 'accept/ratePerSecond'],
  ['sustained per second', 'running/sustainedPerSecond'],
  ['drained per second', 'drain/ratePerSecond'],
] as const;

const COUNTS = [
  ['bytes of WAL', 'walBytes'],
  ['statements', 'statements'],
  ['fsyncs', 'fsyncs'],
] as const;

/** Compares this checkout with another one, in the same rounds and at the same rates. */
export function besideLines(rounds: readonly Round[], { commit, rounds: others }: Beside): string[] {
  const rows = FIGURES.flatMap(([name, pick]) => {
    const ours = spreadOver(rounds, pick);
    const theirs = spreadOver(others, pick);
    if (Number.isNaN(theirs.median)) return [];
    const ratio = spreadOver(rounds, (round) => pick(round) / pick(others[rounds.indexOf(round)] ?? {}));
    return [[name, show(theirs.median), show(ours.median), showSpread(ratio, 'x')]];
  });
  return rows.length === 0 ? [] : table(['', `at ${commit}`, 'now', 'now to it'], rows);
}

const FIGURES: readonly (readonly [name: string, pick: (round: Round) => number])[] = [
  ...RATES.map(([name, path]) => [name, (round: Round) => figureOf(round, path)] as const),
  ['µs a message, saturated', (round) => ownUs(round, 'running')],
  ...LOADS.map(
    (load) => [`µs a message, ${load} %`, (round: Round) => ownUs(round, 'running', load)] as const,
  ),
  ...LOADS.flatMap((load) =>
    (['P50', 'P99'] as const).map(
      (p) =>
        [
          `202 to provider, ${load} %, ${p.toLowerCase()} ms`,
          (round: Round) => figureAt(round, 'running', load, `deliver${p}Ms`),
        ] as const,
    ),
  ),
  ...COUNTS.map(
    ([name, count]) =>
      [`${name} a message`, (round: Round) => round.running?.cost?.[count] ?? Number.NaN] as const,
  ),
];
