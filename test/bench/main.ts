// `npm run bench`: see HELP in help.ts.
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { projectRoot } from '../support/command.ts';
import { HELP } from './help.ts';
import { parseOptions, type BenchOptions } from './options.ts';
import { layoutPage, layoutReport } from './report/page.ts';
import { ledgerOfResult, type BenchResult } from './report/result.ts';
import { runGrowth, runSoak } from './run-kept.ts';
import { runRounds } from './run-rounds.ts';
import { log } from './session.ts';

const COMMANDS = { rounds: runRounds, growth: runGrowth, soak: runSoak } as const;

try {
  const options = parseOptions(process.argv.slice(2));
  if (options === 'help') process.stdout.write(HELP);
  else await report(options, await COMMANDS[options.measures](options));
} catch (error) {
  log(error instanceof TypeError ? error.message : String(error instanceof Error ? error.stack : error));
  process.exitCode = 1;
}

async function report(options: BenchOptions, result: BenchResult): Promise<void> {
  if (options.writesPage) {
    await writeFile(join(projectRoot, 'services', 'PERFORMANCE.md'), layoutPage(result));
  }
  process.stdout.write(options.printsJson ? `${JSON.stringify(result, null, 2)}\n` : layoutReport(result));
  const { lost, repeated } = ledgerOfResult(result);
  if (lost + repeated > 0)
    throw new TypeError(`${lost} messages, receipts or events were lost, ${repeated} came twice`);
}
