// `npm run bench`: see HELP in options.ts.
import { mkdir, writeFile } from 'node:fs/promises';
import { cpus, totalmem } from 'node:os';
import { join } from 'node:path';
import { projectRoot } from '../support/command.ts';
import { startHelper } from './helper.ts';
import * as measurements from './measurements.ts';
import { HELP, parseOptions, type BenchOptions } from './options.ts';
import { printReport, reportOf, type Round } from './report.ts';
import { openStack } from './stack.ts';

const { acceptFloor, acceptStopped, acceptTransaction, drainLoop, drainWorker, running } = measurements;

const CONTESTANTS = {
  floor: acceptFloor,
  stopped: acceptStopped,
  transaction: acceptTransaction,
  running,
  worker: drainWorker,
  loop: drainLoop,
} satisfies { [Name in keyof Round]: (bench: measurements.Bench) => Promise<Round[Name]> };

const log = (line: string): void => void process.stderr.write(`${line}\n`);

try {
  const options = parseOptions(process.argv.slice(2));
  if (options === 'help') process.stdout.write(HELP);
  else await measure(options);
} catch (error) {
  log(error instanceof TypeError ? error.message : String(error instanceof Error ? error.stack : error));
  process.exitCode = 1;
}

async function measure(options: BenchOptions): Promise<void> {
  await using resources = new AsyncDisposableStack();
  const ending = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      log('ending after this measurement');
      ending.abort(new Error('The run was interrupted'));
    });
  const stack = resources.use(await openStack(options.tenants, log));
  const bench: measurements.Bench = {
    options,
    stack,
    helpers: {
      load: resources.use(await startHelper('./load-process.ts')),
      provider: resources.use(await startHelper('./provider-process.ts')),
      loop: resources.use(await startHelper('./loop-process.ts')),
    },
  };
  const rounds: Round[] = [];
  for (let number = 1; number <= options.rounds; number++) {
    const round: Partial<Record<keyof Round, unknown>> = {};
    for (const name of shuffled(Object.keys(CONTESTANTS) as (keyof Round)[])) {
      ending.signal.throwIfAborted();
      log(`round ${number} of ${options.rounds}: ${name}`);
      round[name] = await CONTESTANTS[name](bench);
    }
    rounds.push(round as Round);
  }
  const report = reportOf(rounds);
  const result = {
    machine: { cpu: cpus()[0]?.model, cores: cpus().length, memoryBytes: totalmem(), node: process.version },
    postgres: stack.settings,
    options,
    ...report,
    rounds,
  };
  const text = `${JSON.stringify(result, null, 2)}\n`;
  await mkdir(join(projectRoot, '.despatch'), { recursive: true });
  await writeFile(join(projectRoot, '.despatch', 'bench.json'), text);
  process.stdout.write(options.printsJson ? text : printReport(report, refusals(rounds)));
}

/** So that no contestant always follows the same other. */
function shuffled<T>(values: readonly T[]): T[] {
  return values
    .map((value) => ({ value, at: Math.random() }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ value }) => value);
}

/** Whatever was not a 202, by contestant. */
function refusals(rounds: readonly Round[]): string {
  return rounds
    .flatMap(({ floor, stopped, transaction, running: { accept } }) =>
      Object.entries({ floor, stopped, transaction, running: accept }),
    )
    .flatMap(([name, { refused }]) =>
      Object.entries(refused).map(([status, count]) => `${name} ${status} ${count} times`),
    )
    .join(', ');
}
