import { startHelpers, type Bench } from './measure/bench.ts';
import type { BenchOptions } from './options.ts';
import { openStack } from './stack/stack.ts';

export type Step = (line: string) => void;

export const log = (line: string): void => void process.stderr.write(`${line}\n`);

/** Opens servers and helpers for `work`. Its steps log the next measurement; they throw once the user has interrupted the run. */
export async function withBench<T>(
  options: BenchOptions,
  work: (bench: Bench, step: Step) => Promise<T>,
): Promise<T> {
  await using resources = new AsyncDisposableStack();
  const ending = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      log('ending after this measurement');
      ending.abort(new TypeError('The run was interrupted'));
    });
  const stack = resources.use(await openStack({ ...options, log }));
  const bench: Bench = { options, stack, helpers: await startHelpers(resources) };
  return await work(bench, (line) => {
    ending.signal.throwIfAborted();
    log(line);
  });
}
