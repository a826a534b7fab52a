// `npm run test:fault`; see --help.
import { join } from 'node:path';
import { projectRoot } from '../support/command.ts';
import { FAULT_NAMES } from './faults/all.ts';
import { HELP, parseOptions, type FaultOptions } from './options.ts';
import { reportOf } from './report.ts';
import { runFaults } from './run-faults.ts';
import { runMutants, type MutantResult } from './run-mutants.ts';

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
  let isPassed = true;
  if (trials > 0) {
    const keepIn = join(projectRoot, '.despatch');
    const result = await runFaults({ trials, seed, only, ratePerSecond: rate, tenants, keepIn }, log);
    print(printsJson ? JSON.stringify(result) : reportOf(result));
    isPassed = result.violations.length === 0;
  }
  if (withMutants) {
    log('Mutants: the suite in broken copies of the source');
    const results = await runMutants(seed, (result) => log(mutantLine(result)));
    if (printsJson) print(JSON.stringify(results));
    isPassed &&= results.every(({ isCaught, notRun }) => isCaught || notRun !== undefined);
  }
  process.exitCode = isPassed ? 0 : 1;
}

function mutantLine({ name, expected, isCaught, said, notRun }: MutantResult): string {
  if (notRun !== undefined) return `not run ${name}: ${notRun}`;
  if (expected === null) return `${isCaught ? 'passed' : 'FAILED'}  ${name}: ${said}`;
  return `${isCaught ? 'caught' : 'MISSED'}  ${name}: expected ${expected}, found ${said}`;
}

// What was started is on a leash and ends with us.
process.once('SIGINT', () => process.exit(130));
process.once('SIGTERM', () => process.exit(143));

const options = parseOptions(process.argv.slice(2));
if (options === 'help') process.stdout.write(HELP);
else if (options === 'list') print(FAULT_NAMES.join('\n'));
else await main(options);
