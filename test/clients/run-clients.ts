import { runVitestAgain } from '../support/run-vitest-again.ts';
import { runProgram } from '../../deploy/servers/run-program.ts';
import type { Tally } from '../support/tally.ts';

/** The programs that the generators and their clients need, beside Node. */
const NEEDED = [
  { name: 'Java 11 or newer', command: ['java', '-version'] },
  { name: 'Go', command: ['go', 'version'] },
  { name: 'Python 3 with pip', command: ['python3', '-m', 'pip', '--version'] },
] as const;

const CLIENTS = 4;

/** Generates clients of the served document with widely used generators, and calls the api with each. */
export async function runClients(): Promise<Tally> {
  const there = await Promise.all(
    NEEDED.map(async ({ command: [program, ...args] }) =>
      runProgram(program, args).then(
        () => true,
        () => false,
      ),
    ),
  );
  const missing = NEEDED.filter((_, i) => there[i] === false).map(({ name }) => name);
  if (missing.length > 0) {
    process.stdout.write(`skipped  generated clients: they need ${missing.join(', ')}\n`);
    return { passed: 0, failed: 0, skipped: CLIENTS };
  }
  return (await runVitestAgain('clients')).tally;
}
