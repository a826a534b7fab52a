import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import type { ContestantName } from '../contestants.ts';
import type { BenchOptions } from '../options.ts';
import { runProgram } from '../../../deploy/servers/run-program.ts';
import type { Round } from './round.ts';

/** The rounds of another checkout of the project, measured alternately with the rounds of this one. */
export type Beside = { readonly commit: string; readonly rounds: Round[] };

/** The contestants by which the two checkouts are compared. */
const COMPARED: readonly ContestantName[] = ['accept', 'running', 'drain'];

/** Returns the chosen contestants that the other checkout measures too. */
function comparedOf({ only }: BenchOptions): ContestantName[] {
  return COMPARED.filter((name) => only.includes(name));
}

/**
 * Whether a round measures the other checkout first. Whichever is first may find the machine in another state, so every second
 * round swaps them; where the maximum is yet to be found, this checkout has to find it first, so that both get the same rates.
 */
export function isOtherFirst({ maximum }: Pick<BenchOptions, 'maximum'>, number: number): boolean {
  return maximum !== undefined && number % 2 === 0;
}

/** Returns the arguments with which the other checkout's bench measures the same in one round. */
export function besideArguments(options: BenchOptions, number: number, maximum: number): string[] {
  const { measureMs, warmMs, connections, tenants, backlog, keyring, seed, isIdempotent } = options;
  const values = {
    only: comparedOf(options).join(','),
    rounds: 1,
    seconds: measureMs / 1_000,
    warm: warmMs / 1_000,
    maximum: Math.max(1, Math.round(maximum)),
    connections,
    tenants,
    backlog,
    keyring,
    seed: seed + number,
  };
  const given = Object.entries(values).flatMap(([name, value]) => [`--${name}`, String(value)]);
  return [...given, '--json', ...(isIdempotent ? ['--idempotent'] : [])];
}

/**
 * Runs one round of the bench in the checkout in `folder`, with its own servers and at the same rates.
 * @throws when it fails, for example because a message was lost or sent twice.
 */
export async function measureBeside(
  folder: string,
  options: BenchOptions,
  number: number,
  maximum: number,
): Promise<Round> {
  const args = ['deploy/run.mjs', 'test/bench/main.ts', ...besideArguments(options, number, maximum)];
  const child = spawn(process.execPath, args, { cwd: resolve(folder), stdio: ['ignore', 'pipe', 'inherit'] });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  if (code !== 0) throw new Error(`the bench in ${folder} ended with ${String(code)}`);
  const { rounds } = JSON.parse(output) as { rounds: readonly [Round] };
  return rounds[0];
}

export async function commitOf(folder: string): Promise<string> {
  return await runProgram('git', ['rev-parse', '--short', 'HEAD'], { cwd: resolve(folder) });
}
