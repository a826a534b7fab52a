import { VIOLATIONS, type ViolationName } from './violations.ts';
import type { RunResult } from './run-faults.ts';

const SHOWN_MAX = 5;

/** Returns the report of a run as text. */
export function reportOf(result: RunResult): string {
  const { load, checked, events, violations, trials, crashes } = result;
  const { repeats, states } = checked;
  const count = (...names: ViolationName[]): number =>
    violations.filter(({ name }) => names.includes(name)).length;
  const lines = [
    '',
    `seed ${result.seed}, ${trials.length} faults in ${result.loadSeconds.toFixed(0)} s of load, drained in ${result.drainSeconds.toFixed(0)} s`,
    '',
    `acknowledged  ${checked.acknowledged} (${load.offered} offered, ${load.shed} never sent because too many waited)`,
    `stored        ${checked.stored} (${entries(states)})`,
    `receipts      ${checked.receipts} taken`,
    `events        ${events} came to endpoints`,
    `lost          ${count('lost')}`,
    `failed        ${count('failed')}`,
    `ghosts        ${count('ghost')}`,
    `silent        ${checked.silent} went on to the next account for want of a receipt, ${repeats.silent} were sent there`,
    `second calls  ${repeats.duplicateRisk} with duplicateRisk, ${repeats.askedFor} asked for by the provider, ${repeats.unexplained} unexplained`,
    `canceled      ${load.canceled}, too late for ${load.notCanceled}`,
    `suppressed    ${load.suppressed} recipients`,
    `503           ${load.unavailable}, no answer ${load.unanswered}, replayed ${load.replayed}`,
    `refused       ${entries(load.refused) || 'none'}`,
    `crashes       ${crashes.length === 0 ? 'none' : crashes.length}`,
    ...[...Map.groupBy(crashes, (how) => how.slice(0, 160)).entries()].map(
      ([how, all]) => `              ${all.length} × ${how}`,
    ),
    `searched      ${(result.searchedBytes / 1e6).toFixed(0)} MB of logs, traces, metrics, wake-ups and tables for secrets`,
    '',
    'fault                              times  not run  ready again after, median and longest',
    ...faultLines(result),
    '',
  ];
  for (const [name, all] of Map.groupBy(violations, (one) => one.name)) {
    lines.push(`VIOLATED  ${name}: ${VIOLATIONS[name]} (${all.length})`);
    for (const { detail } of all.slice(0, SHOWN_MAX)) lines.push(`          ${detail}`);
  }
  if (result.evidence !== null) lines.push(`evidence  ${result.evidence}`);
  lines.push(
    violations.length === 0
      ? `PASSED: ${checked.acknowledged} acknowledged, 0 lost, 0 ghosts, 0 unexplained duplicates`
      : `FAILED: ${violations.length} violations; again with --seed ${result.seed}`,
  );
  return lines.join('\n');
}

function faultLines({ trials }: RunResult): string[] {
  return [...Map.groupBy(trials, ({ name }) => name).entries()]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, all]) => {
      const run = all.filter(({ notRun }) => notRun === undefined);
      const times = run.map(({ readyMs }) => readyMs ?? Number.POSITIVE_INFINITY).toSorted((a, b) => a - b);
      const shown = times.length === 0 ? '' : `${times[times.length >> 1]} ms  ${times.at(-1)} ms`;
      const cells = [
        name.padEnd(34),
        String(run.length).padStart(5),
        String(all.length - run.length).padStart(8),
      ];
      return `${cells.join(' ')}  ${shown}`;
    });
}

function entries(counts: Readonly<Record<string, number>>): string {
  return Object.entries(counts)
    .map(([name, n]) => `${name} ${n}`)
    .join(', ');
}
