import { runCommand, tool } from './command.ts';
import { runVitest } from './run-vitest.ts';
import { sum, type Tally } from './tally.ts';

type StaticCheck = { readonly name: string; readonly command: readonly string[] };

const CHECKS: readonly StaticCheck[] = [
  { name: 'types', command: [tool('tsc'), '-p', '.'] },
  { name: 'lint', command: [tool('oxlint'), '--deny-warnings'] },
  { name: 'format', command: [tool('oxfmt'), '--check'] },
  { name: 'dead code', command: [tool('knip')] },
  { name: 'generated files', command: [process.execPath, 'services/providers/generate.ts', '--check'] },
];

/** Runs the static checks one after the other and beside them the unit tests. */
export async function runStaticChecks(): Promise<Tally> {
  return sum(await Promise.all([runInTurn(CHECKS), runVitest('unit')]));
}

async function runInTurn(checks: readonly StaticCheck[]): Promise<Tally> {
  const tallies: Tally[] = [];
  for (const check of checks) tallies.push(await runCheck(check));
  return sum(tallies);
}

async function runCheck({ name, command }: StaticCheck): Promise<Tally> {
  const started = Date.now();
  const { code, output } = await runCommand(command, 'gather');
  const seconds = ((Date.now() - started) / 1000).toFixed(1);
  if (code === 0) {
    process.stdout.write(`passed  ${name} (${seconds} s)\n`);
    return { passed: 1, failed: 0 };
  }
  process.stdout.write(`FAILED  ${name} (${seconds} s)\n${output.trimEnd()}\n`);
  return { passed: 0, failed: 1 };
}
