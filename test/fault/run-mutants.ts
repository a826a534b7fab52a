import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { plantMutants } from '../support/mutant-tree.ts';
import type { ViolationName } from './check.ts';
import { MUTANTS, type FaultMutant } from './mutants.ts';

export type MutantResult = {
  readonly name: string;
  readonly expected: ViolationName | null;
  /** Whether the suite said what it must: the violation, or for the control that there is none. */
  readonly isCaught: boolean;
  /** What it did say. */
  readonly said: string;
};

type Outcome = { readonly violations: readonly { readonly name: string; readonly detail: string }[] };

const RATE = '80';
const AT_ONCE = 2;
const RUN_MS_MAX = 240_000;

/** Runs the suite in a tree of its own for each mutant, and once in a tree without any: only the latter may pass. */
export async function runMutants(
  seed: number,
  note: (result: MutantResult) => void,
): Promise<MutantResult[]> {
  const faults = [...new Set(MUTANTS.map(({ fault }) => fault))];
  const control = (): Promise<MutantResult> => runOne(null, faults, seed);
  const waiting = [control, ...MUTANTS.map((mutant) => () => runOne(mutant, [mutant.fault], seed))];
  const results: MutantResult[] = [];
  async function work(): Promise<void> {
    for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
      const result = await next();
      results.push(result);
      note(result);
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  return results;
}

async function runOne(
  mutant: FaultMutant | null,
  faults: readonly string[],
  seed: number,
): Promise<MutantResult> {
  const name = mutant?.name ?? 'control, without a mutant';
  const expected = mutant?.expected ?? null;
  await using tree = await plantMutants((mutant?.patches ?? []).map((patch) => ({ name, ...patch })));
  const args = ['--seed', String(seed), '--rate', RATE, '--tenants', '2', '--trials', String(faults.length)];
  const outcome = await runIn(tree.root, [
    ...args,
    ...faults.flatMap((fault) => ['--only', fault]),
    '--json',
  ]);
  if (typeof outcome === 'string') return { name, expected, isCaught: false, said: outcome };
  const { violations } = outcome;
  const isCaught =
    expected === null ? violations.length === 0 : violations.some((violation) => violation.name === expected);
  const names = [...new Set(violations.map((violation) => violation.name))];
  const first = violations[0]?.detail ?? '';
  return {
    name,
    expected,
    isCaught,
    said: names.length === 0 ? 'nothing' : `${names.join(', ')} (${first})`,
  };
}

/** @returns the result, or how the run ended without one. */
async function runIn(root: string, args: readonly string[]): Promise<Outcome | string> {
  const child = spawn(process.execPath, [join('test', 'fault', 'main.ts'), ...args], {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: RUN_MS_MAX,
  });
  const [output, errors]: [Buffer[], Buffer[]] = [[], []];
  child.stdout.on('data', (chunk: Buffer) => void output.push(chunk));
  child.stderr.on('data', (chunk: Buffer) => void errors.push(chunk));
  const [code] = (await once(child, 'close')) as [number | null];
  try {
    return JSON.parse(Buffer.concat(output).toString()) as Outcome;
  } catch {
    return `ended with ${code ?? 'a signal'}: ${Buffer.concat(errors).toString().slice(-600)}`;
  }
}
