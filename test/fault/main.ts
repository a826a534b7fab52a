// `npm run test:fault`; see --help.
import { join } from 'node:path';
import { projectRoot } from '../support/command.ts';
import { FAULT_NAMES } from './faults/all.ts';
import { HELP, parseOptions, type FaultOptions } from './options.ts';
import { reportOf } from './report.ts';
import { runFaults } from './run-faults.ts';

async function main(options: FaultOptions): Promise<void> {
  const log = (line: string): void => void process.stderr.write(`${line}\n`);
  const { trials, seed, only, rate, tenants } = options;
  const keepIn = join(projectRoot, '.despatch');
  const result = await runFaults({ trials, seed, only, ratePerSecond: rate, tenants, keepIn }, log);
  process.stdout.write(`${options.printsJson ? JSON.stringify(result) : reportOf(result)}\n`);
  process.exitCode = result.violations.length === 0 ? 0 : 1;
}

const options = parseOptions(process.argv.slice(2));
if (options === 'help') process.stdout.write(HELP);
else if (options === 'list') process.stdout.write(`${FAULT_NAMES.join('\n')}\n`);
else await main(options);
