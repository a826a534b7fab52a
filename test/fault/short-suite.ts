import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { projectRoot } from '../support/command.ts';
import type { Tally } from '../support/tally.ts';
import { VIOLATIONS, type ViolationName } from './violations.ts';
import type { RunResult } from './run-faults.ts';
import { MUTANT_FAULTS, type MutantResult } from './run-mutants.ts';

/** A minute or two of faults: one for each place that can break and those that expose the mutants, the same in every run. */
const FAULTS = unique([
  ...MUTANT_FAULTS,
  'kill-api-accept-committed',
  'kill-worker-bytes-left',
  'kill-worker-before-record',
  'stop-worker-before-call',
  'stop-api-accept-committed',
  'cut-api-accept-committed',
  'kill-worker-receipt-read',
  'kill-worker-before-silent-moved',
  'cut-api-receipt-stored',
  'end-api',
  'end-worker',
  'postgres-crash',
  'postgres-power-lost',
  'disk-full',
  'nats-store-lost',
  'nats-consumer-deleted',
  'vault-sealed',
  'vault-tokens-revoked',
  'provider-reset',
  'provider-unavailable',
  'first-account-unavailable',
  'first-account-reset',
  'receiver-unavailable',
  'receiver-down',
  'receiver-gone',
  'kill-worker-matched',
  'kill-worker-before-delivered',
  'clock-api-back',
  'clock-worker-ahead',
]);
const SEED = '1';
/** Messages per second: what two slow cores take in while the other suites run beside this one. */
const RATE = '60';
const EXAMPLES_MAX = 3;

/** Runs the part of the fault suite that belongs to every test run; each guarantee and each mutant counts as one test. */
export async function runShortSuite(): Promise<Tally> {
  const only = FAULTS.flatMap((fault) => ['--only', fault]);
  const trials = ['--trials', String(FAULTS.length), '--seed', SEED, '--rate', RATE];
  const [faults, mutants] = await runFaultSuite([...trials, ...only, '--mutants', '--json']);
  const results = [
    ...guaranteesOf(faults),
    ...(mutants ?? []).filter(({ notRun }) => notRun === undefined).map(resultOf),
  ];
  for (const { isPassed, line } of results) {
    process.stdout.write(`${isPassed ? 'passed' : 'FAILED'}  ${line}\n`);
  }
  const passed = results.filter(({ isPassed }) => isPassed).length;
  const skipped = (mutants ?? []).filter(({ notRun }) => notRun !== undefined);
  for (const { name, notRun } of skipped) process.stdout.write(`skipped mutant "${name}": ${notRun}\n`);
  const failures = results.filter(({ isPassed }) => !isPassed).map(({ line }) => line);
  if (mutants === undefined) failures.push('mutants: the suite ended without a result');
  return { passed, failed: failures.length, skipped: skipped.length, failures };
}

function unique(names: readonly string[]): string[] {
  return [...new Set(names)];
}

type Result = { readonly isPassed: boolean; readonly line: string };

function guaranteesOf(run: RunResult | undefined): Result[] {
  if (run === undefined) return [{ isPassed: false, line: 'faults: the suite ended without a result' }];
  return Object.entries(VIOLATIONS).map(([name, guarantee]) => {
    const violated = run.violations.filter((violation) => violation.name === (name as ViolationName));
    const examples = violated.slice(0, EXAMPLES_MAX).map(({ detail }) => detail);
    const why =
      violated.length === 0 ? '' : `: ${violated.length} (${examples.join(' | ')}; ${run.evidence})`;
    return { isPassed: violated.length === 0, line: `under faults ${guarantee}${why}` };
  });
}

function resultOf({ name, isCaught, said }: MutantResult): Result {
  return { isPassed: isCaught, line: `mutant "${name}": the suite found ${said}` };
}

/** Runs the suite in a separate process, as from a terminal. */
async function runFaultSuite(args: readonly string[]): Promise<[RunResult?, MutantResult[]?]> {
  const child = spawn(process.execPath, [join('test', 'fault', 'main.ts'), ...args], {
    cwd: projectRoot,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const output: Buffer[] = [];
  child.stdout.on('data', (chunk: Buffer) => void output.push(chunk));
  const abort = (): void => void child.kill('SIGTERM');
  process.once('SIGTERM', abort);
  await once(child, 'close');
  process.off('SIGTERM', abort);
  const lines = Buffer.concat(output)
    .toString()
    .split('\n')
    .filter((line) => line !== '');
  return lines.map((line) => JSON.parse(line) as unknown) as [RunResult?, MutantResult[]?];
}
