// `npm run test:fault`; see --help.
import { join } from 'node:path';
import { projectRoot } from '../support/command.ts';
import { FAULT_NAMES } from './faults/all.ts';
import { HELP, parseOptions, type FaultOptions } from './options.ts';
import { reportOf } from './report.ts';
import { runFaults } from './run-faults.ts';
import { MUTANT_FAULTS, runMutants, type MutantResult } from './run-mutants.ts';

const log = (line: string): void => void process.stderr.write(`${line}\n`);
const print = (text: string): void => void process.stdout.write(`${text}\n`);

async function main({
  trials,
  seed,
  only,
  rate,
  tenants,
  withMutants,
  printsJson,
}: FaultOptions): Promise<void> {
  const keepIn = join(projectRoot, '.despatch');
  const faults = { trials, seed, only, ratePerSecond: rate, tenants, keepIn };
  const isControlled = trials >= only.length && MUTANT_FAULTS.every((name) => only.includes(name));
  if (withMutants) log('Mutants: the suite in broken copies of the source');
  const running = trials > 0 ? runFaults(faults, log) : Promise.resolve(undefined);
  const [result, mutants] = await Promise.all([
    running,
    withMutants
      ? runMutants({ seed, withControl: !isControlled, beside: running }, (mutant) => log(mutantLine(mutant)))
      : undefined,
  ]);
  if (result !== undefined) print(printsJson ? JSON.stringify(result) : reportOf(result));
  if (printsJson && mutants !== undefined) print(JSON.stringify(mutants));
  const isPassed =
    (result?.violations.length ?? 0) === 0 &&
    (mutants ?? []).every(({ isCaught, notRun }) => isCaught || notRun !== undefined);
  process.exitCode = isPassed ? 0 : 1;
}

function mutantLine({ name, expected, isCaught, said, notRun }: MutantResult): string {
  if (notRun !== undefined) return `not run ${name}: ${notRun}`;
  if (expected === null) return `${isCaught ? 'passed' : 'FAILED'}  ${name}: ${said}`;
  return `${isCaught ? 'caught' : 'MISSED'}  ${name}: expected ${expected}, found ${said}`;
}

// The processes that were started end with this one.
process.once('SIGINT', () => process.exit(130));
process.once('SIGTERM', () => process.exit(143));

const options = parseOptions(process.argv.slice(2));
if (options === 'help') process.stdout.write(HELP);
else if (options === 'list') print(FAULT_NAMES.join('\n'));
else await main(options);
