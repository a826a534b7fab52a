import { parseArgs } from 'node:util';
import { FAULT_NAMES } from './faults/all.ts';

export type FaultOptions = {
  /** Faults in one run. */
  readonly trials: number;
  readonly seed: number;
  /** Messages a second. */
  readonly rate: number;
  /** The faults to draw from; empty: all. */
  readonly only: readonly string[];
  readonly tenants: number;
  /** Runs the mutants beside the faults, or alone where `trials` is 0. */
  readonly withMutants: boolean;
  readonly printsJson: boolean;
};

export const HELP = `npm run test:fault [-- options]

Runs two api and two worker processes, NATS, Postgres and Vault under a constant load, breaks them again and again, and
compares what was acknowledged with what the providers received and what the database says.

  --trials N     faults in one run, one after the other (20)
  --seed S       draws the same faults, targets and offsets again (random, printed)
  --rate R       messages a second, constant (150)
  --only NAME    draws from the faults with this name alone, or this beginning; may be given more than once
  --tenants N    tenants that the load is spread over (8)
  --mutants      the suite must catch faults that are planted in the source; without --trials nothing else is run.
                 They also run after --trials 100 or more
  --list         names the faults
  --json         prints the result as JSON
  --help         this text

Exit code 1 on any violation; the ledgers and logs are then kept and their folder is printed.
`;

const MUTANTS_FROM_TRIALS = 100;

/** Parses the command line. @throws TypeError with a sentence for the user. */
export function parseOptions(args: readonly string[]): FaultOptions | 'help' | 'list' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      trials: { type: 'string' },
      seed: { type: 'string' },
      rate: { type: 'string', default: '150' },
      only: { type: 'string', multiple: true, default: [] },
      tenants: { type: 'string', default: '8' },
      mutants: { type: 'boolean', default: false },
      list: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  if (values.list) return 'list';
  const trials =
    values.trials === undefined ? (values.mutants ? 0 : 20) : whole('trials', values.trials, 1, 100_000);
  return {
    trials,
    seed:
      values.seed === undefined
        ? Math.floor(Math.random() * 2 ** 32)
        : whole('seed', values.seed, 0, 2 ** 32 - 1),
    rate: whole('rate', values.rate, 1, 10_000),
    only: [...new Set(values.only.flatMap(namesOf))],
    tenants: whole('tenants', values.tenants, 2, 1_000),
    withMutants: values.mutants || trials >= MUTANTS_FROM_TRIALS,
    printsJson: values.json,
  };
}

function namesOf(beginning: string): string[] {
  if (FAULT_NAMES.includes(beginning)) return [beginning];
  const names = FAULT_NAMES.filter((name) => name.startsWith(beginning));
  if (names.length === 0) throw new TypeError(`--only ${beginning}: no such fault; --list names them`);
  return names;
}

function whole(name: string, value: string, min: number, max: number): number {
  const number = Number(value);
  if (/^\d+$/.test(value) && number >= min && number <= max) return number;
  throw new TypeError(`--${name} must be a whole number from ${min} to ${max}`);
}
