import { CONTESTANTS, type ContestantName } from '../contestants.ts';
import type { Round } from '../measure/round.ts';
import { costOf, figureOf, spreadOver, type FigurePath } from './result.ts';
import { show, showSpread, table } from './text.ts';

/** Shows a ratio that is taken within each round. */
export function showRatio(rounds: readonly Round[], one: FigurePath, other: FigurePath): string {
  return showSpread(
    spreadOver(rounds, (round) => figureOf(round, one) / figureOf(round, other)),
    'x',
  );
}

/** Returns the contestants that at least one round measured. */
export function measuredOf<Name extends ContestantName>(
  rounds: readonly Round[],
  names: readonly Name[],
): Name[] {
  return names.filter((name) => rounds.some((round) => round[name] !== undefined));
}

/** Lays out each contestant's rate, and its ratio to the floor. */
export function rateLines(
  rounds: readonly Round[],
  names: readonly ContestantName[],
  floor: ContestantName,
): string[] {
  const found = measuredOf(rounds, names);
  if (found.length === 0) return [];
  const hasLatency = found.some((name) => rounds[0]?.[name]?.figures['p50Ms'] !== undefined);
  const optional = (name: ContestantName, figure: string): string =>
    show(spreadOver(rounds, (round) => round[name]?.figures[figure] ?? Number.NaN).median);
  return table(
    ['', 'per second', 'to the floor', ...(hasLatency ? ['p50 ms', 'p99 ms', 'p99.9 ms'] : [])],
    found.map((name) => [
      CONTESTANTS[name],
      showSpread(spreadOver(rounds, (round) => figureOf(round, `${name}/ratePerSecond`))),
      showRatio(rounds, `${name}/ratePerSecond`, `${floor}/ratePerSecond`),
      ...(hasLatency ? ['p50Ms', 'p99Ms', 'p999Ms'].map((figure) => optional(name, figure)) : []),
    ]),
  );
}

const PROCESSES = ['api', 'worker', 'postgres', 'nats', 'vault', 'provider', 'receiver', 'load'];

/** Lays out processor time by process, WAL, statements and more per message, without contestants that were not measured. */
export function costLines(rounds: readonly Round[], names: readonly ContestantName[]): string[] {
  const costs = measuredOf(rounds, names)
    .map((name) => [name, costOf(rounds, name)] as const)
    .filter((pair) => pair[1] !== undefined);
  if (costs.length === 0) return [];
  const seen = PROCESSES.filter((process) => costs.some(([, cost]) => cost?.cpuUs?.[process] !== undefined));
  return table(
    ['', ...seen.map((process) => `${process} µs`), 'WAL bytes', 'statements', 'fsyncs', 'Vault calls'],
    costs.map(([name, cost]) => [
      (name.startsWith('drain') ? 'drain: ' : '') + CONTESTANTS[name],
      ...seen.map((process) => show(cost?.cpuUs?.[process] ?? Number.NaN)),
      ...[cost?.walBytes, cost?.statements, cost?.fsyncs, cost?.vaultCalls].map((value) =>
        show(value ?? Number.NaN),
      ),
    ]),
  );
}
