import { runCommand, tool } from './command.ts';
import { runVitestAgain } from './run-vitest-again.ts';
import { sum, type Tally } from './tally.ts';

type StaticCheck = { readonly name: string; readonly command: readonly string[] };

const CHECKS: readonly StaticCheck[] = [
  { name: 'types', command: [tool('tsc'), '-p', '.'] },
  { name: 'lint', command: [tool('oxlint'), '--deny-warnings'] },
  { name: 'format', command: [tool('oxfmt'), '--check'] },
  { name: 'dead code', command: [tool('knip')] },
  { name: 'generated files', command: [process.execPath, 'services/generate.ts', '--check'] },
];

/** Runs the static checks one after the other, with the unit tests beside them, and prints a line for each. */
export async function runStaticChecks(): Promise<Tally> {
  return sum(await Promise.all([runInTurn(CHECKS), runUnitTests()]));
}

async function runInTurn(checks: readonly StaticCheck[]): Promise<Tally> {
  const tallies: Tally[] = [];
  for (const { name, command } of checks) {
    const started = Date.now();
    const { code, output } = await runCommand(command, 'gather');
    report({ name, started, output, isPassed: code === 0 });
    tallies.push(code === 0 ? { passed: 1, failed: 0 } : { passed: 0, failed: 1, failures: [name] });
  }
  return sum(tallies);
}

async function runUnitTests(): Promise<Tally> {
  const started = Date.now();
  const { tally, output } = await runVitestAgain('unit', { show: false });
  report({ name: `${tally.passed} unit tests`, started, output, isPassed: tally.failed === 0 });
  return tally;
}

type Line = { name: string; started: number; output: string; isPassed: boolean };

function report({ name, started, output, isPassed }: Line): void {
  const seconds = ((Date.now() - started) / 1000).toFixed(1);
  process.stdout.write(`${isPassed ? 'passed' : 'FAILED'}  ${name} (${seconds} s)\n`);
  if (!isPassed) process.stdout.write(`${output.trimEnd()}\n`);
}
