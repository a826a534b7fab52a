// `npm run bench`: see HELP in options.ts.
import { mkdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { projectRoot } from '../support/command.ts';
import { startHelpers, type Bench } from './measure/bench.ts';
import { measureGrowth, requireSpace, type Growth } from './measure/growth.ts';
import { describeMachine } from './measure/machine.ts';
import { measureRound, type Round } from './measure/round.ts';
import { HELP, parseOptions, type BenchOptions } from './options.ts';
import { layoutPage, layoutReport } from './report/page.ts';
import { figureOf, ledgerOfResult, spreadOver, type BenchResult } from './report/result.ts';
import { openStack } from './stack/stack.ts';

/** Growth's load, where the run did not find out what the service keeps up with. */
const MODEST_PER_SECOND = 500;
const KEPT = join(projectRoot, '.despatch', 'bench.json');

const log = (line: string): void => void process.stderr.write(`${line}\n`);

try {
  const options = parseOptions(process.argv.slice(2));
  if (options === 'help') process.stdout.write(HELP);
  else await report(options, await measure(options));
} catch (error) {
  log(error instanceof TypeError ? error.message : String(error instanceof Error ? error.stack : error));
  process.exitCode = 1;
}

async function measure(options: BenchOptions): Promise<BenchResult> {
  const last = options.resumes ? await lastResult() : null;
  await using resources = new AsyncDisposableStack();
  const ending = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      log('ending after this measurement');
      ending.abort(new Error('The run was interrupted'));
    });
  const stack = resources.use(await openStack({ ...options, log }));
  const bench: Bench = { options, stack, helpers: await startHelpers(resources) };
  if (options.measuresGrowth) await requireSpace(bench);
  const machine = await describeMachine(stack);
  const takenAt = new Date().toISOString();
  const step = (line: string): void => {
    ending.signal.throwIfAborted();
    log(line);
  };
  const rounds: Round[] = [...(last?.rounds ?? [])];
  const wanted = last?.rounds.length ?? options.rounds;
  for (let number = 1; number <= wanted && options.only.length > 0; number++) {
    const round = await measureRound(bench, number, (name) => step(`round ${number} of ${wanted}: ${name}`));
    rounds[number - 1] = { ...rounds[number - 1], ...round };
    // What took so long is kept, whatever comes later.
    await keep({ takenAt, machine, options, growth: null, ...last, rounds });
  }
  const growth = options.measuresGrowth ? await grow(bench, rounds, step) : (last?.growth ?? null);
  // What describes the rounds is what they were measured with.
  const result = { takenAt, machine, options, ...last, rounds, growth };
  await keep(result);
  return result;
}

function grow(bench: Bench, rounds: readonly Round[], step: (line: string) => void): Promise<Growth> {
  const { median } = spreadOver(rounds, (round) => figureOf(round, 'running/sustainedPerSecond'));
  return measureGrowth(bench, Number.isNaN(median) ? MODEST_PER_SECOND : median / 2, step);
}

function textOf(result: BenchResult): string {
  return `${JSON.stringify(result, null, 2)}\n`;
}

async function keep(result: BenchResult): Promise<void> {
  await mkdir(dirname(KEPT), { recursive: true });
  await writeFile(KEPT, textOf(result));
}

/** @throws TypeError where there is none with a round. */
async function lastResult(): Promise<BenchResult> {
  const text = await readFile(KEPT, 'utf8').catch(() => null);
  const result = text === null ? null : (JSON.parse(text) as BenchResult);
  if (result === null || result.rounds.length === 0)
    throw new TypeError(`--resume found no round in ${KEPT}`);
  return result;
}

async function report(options: BenchOptions, result: BenchResult): Promise<void> {
  if (options.writesPage) {
    await writeFile(join(projectRoot, 'services', 'PERFORMANCE.md'), layoutPage(result));
  }
  process.stdout.write(options.printsJson ? textOf(result) : layoutReport(result));
  const { lost, repeated } = ledgerOfResult(result);
  if (lost + repeated > 0) throw new TypeError(`${lost} messages were lost, ${repeated} were sent twice`);
}
