import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { plantMutants } from '../support/mutant-tree.ts';
import { MUTANTS, type FaultMutant } from './mutants.ts';
import type { ViolationName } from './violations.ts';

export type MutantResult = {
  readonly name: string;
  readonly expected: ViolationName | null;
  /** Whether the suite found the expected violation; for the control, whether it found none. */
  readonly isCaught: boolean;
  /** What the suite found. */
  readonly said: string;
  /** Why this machine cannot inject its fault; without the fault the mutant has no effect. */
  readonly notRun?: string | undefined;
};

type Outcome = {
  readonly violations: readonly { readonly name: string; readonly detail: string }[];
  readonly trials: readonly { readonly name: string; readonly notRun?: string }[];
};

const RATE = '80';
const RUN_MS_MAX = 600_000;
/** Faults come at random moments, and on a busy machine one trial may expose nothing: each further run adds one trial. */
const RUNS_MAX = 3;

/** The faults that expose the mutants. */
export const MUTANT_FAULTS = faultsOf(MUTANTS);

export type MutantOptions = {
  readonly seed: number;
  /** Also runs a copy without a mutant, which must pass. A run of the same faults in the checkout proves the same. */
  readonly withControl: boolean;
  /** A fault run that is in progress. */
  readonly beside: Promise<unknown>;
};

/** Runs the suite in broken copies of the tree and checks that it finds the expected violation in each. */
export async function runMutants(
  { seed, withControl, beside }: MutantOptions,
  note: (result: MutantResult) => void,
): Promise<MutantResult[]> {
  const trees = Map.groupBy(MUTANTS, ({ tree }) => tree);
  const waiting = [
    ...(withControl ? [() => runControl(seed)] : []),
    ...[...trees.values()].map((mutants) => () => runTree(mutants, seed)),
  ];
  const results: MutantResult[] = [];
  async function work(): Promise<void> {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const some = await next();
      results.push(...some);
      some.forEach(note);
    }
  }
  // Each run has its own servers and idles half of the time: two run at once; with a third, processes would start too late.
  await Promise.all([work(), beside.then(work, work)]);
  return results;
}

async function runControl(seed: number): Promise<MutantResult[]> {
  await using tree = await plantMutants([]);
  const outcome = await runIn(tree.root, faultsOf(MUTANTS), { seed, times: 1 });
  const isCaught = typeof outcome !== 'string' && outcome.violations.length === 0;
  return [{ name: 'control, without a mutant', expected: null, isCaught, said: wordsOf(outcome) }];
}

async function runTree(mutants: readonly FaultMutant[], seed: number): Promise<MutantResult[]> {
  await using tree = await plantMutants(mutants);
  const found = new Map<string, MutantResult>();
  let missed = mutants;
  for (let run = 0; run < RUNS_MAX && missed.length > 0; run += 1) {
    const times = run + 1;
    for (const result of await runFaults(tree.root, missed, { seed: seed + run, times })) {
      found.set(result.name, result);
    }
    missed = missed.filter(({ name }) => found.get(name)?.isCaught !== true);
  }
  return [...found.values()];
}

/** `times`: how often each fault is injected. */
type Runs = { readonly seed: number; readonly times: number };

async function runFaults(root: string, mutants: readonly FaultMutant[], runs: Runs): Promise<MutantResult[]> {
  const outcome = await runIn(root, faultsOf(mutants), runs);
  const { violations, trials } = typeof outcome === 'string' ? { violations: [], trials: [] } : outcome;
  return mutants.map(({ name, expected, fault }) => ({
    name,
    expected,
    isCaught: violations.some((violation) => violation.name === expected),
    said: wordsOf(outcome, expected),
    notRun: trials.find((trial) => trial.name === fault)?.notRun,
  }));
}

function faultsOf(mutants: readonly FaultMutant[]): string[] {
  return [...new Set(mutants.map(({ fault }) => fault))];
}

/** @param first the violation of which to show an example. */
function wordsOf(outcome: Outcome | string, first?: ViolationName): string {
  if (typeof outcome === 'string') return outcome;
  const { violations } = outcome;
  const names = [...new Set(violations.map(({ name }) => name))];
  const example = violations.find(({ name }) => name === first) ?? violations[0];
  return example === undefined ? 'nothing' : `${names.join(', ')} (${example.name}: ${example.detail})`;
}

/** @returns the result, or how the run ended without one. */
async function runIn(
  root: string,
  faults: readonly string[],
  { seed, times }: Runs,
): Promise<Outcome | string> {
  const trials = String(faults.length * times);
  const size = ['--seed', String(seed), '--rate', RATE, '--tenants', '2', '--trials', trials];
  const args = [...size, ...faults.flatMap((fault) => ['--only', fault]), '--json'];
  const child = spawn(process.execPath, [join('test', 'fault', 'main.ts'), ...args], {
    cwd: root,
    // The copy is deleted after the run, together with its compiled code.
    env: { ...process.env, NODE_COMPILE_CACHE: join(root, 'compiled') },
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: RUN_MS_MAX,
  });
  const abort = (): void => void child.kill('SIGTERM');
  process.once('exit', abort);
  const [output, errors]: [Buffer[], Buffer[]] = [[], []];
  child.stdout.on('data', (chunk: Buffer) => void output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => void errors.push(chunk));
  const [code] = (await once(child, 'close')) as [number | null];
  process.off('exit', abort);
  try {
    return JSON.parse(Buffer.concat(output).toString()) as Outcome;
  } catch {
    return `ended with ${code ?? 'a signal'}: ${Buffer.concat(errors).toString().slice(-600)}`;
  }
}
