import { parseArgs } from 'node:util';
import { CONTESTANT_NAMES, type ContestantName } from './contestants.ts';

export type BenchOptions = {
  readonly rounds: number;
  /** Length of each measurement. */
  readonly measureMs: number;
  /** Load before each measurement that is not counted. */
  readonly warmMs: number;
  readonly connections: number;
  readonly tenants: number;
  /** Messages of the backlog that is drained. */
  readonly backlog: number;
  /** Every request carries an idempotency key. */
  readonly isIdempotent: boolean;
  /** Where tenants' keys are. */
  readonly keyring: 'vault' | 'local';
  /** Decides the order of the contestants. */
  readonly seed: number;
  /** What is measured; everything unless chosen. */
  readonly only: readonly ContestantName[];
  readonly measuresGrowth: boolean;
  /** Keeps the last result, but for what is chosen by `only` and for growth. */
  readonly resumes: boolean;
  /** Messages of the largest database, with growth. */
  readonly growTo: number;
  readonly writesPage: boolean;
  readonly printsJson: boolean;
  /** Folder for the CPU profiles of api and worker. */
  readonly profileFolder: string | undefined;
};

export const HELP = `npm run bench [-- options]

Measures the service on this machine, side by side with its floors and with other queues on the same Postgres, which
syncs every commit. Each contestant runs in processes of its own, all in turn and in another order each round; ratios
within one round are what counts, absolute figures are the machine's. Prints every target with its figure, writes the
result to .despatch/bench.json, and fails when a message was lost or sent twice.

  --rounds N        rounds, the median of which is reported (5)
  --seconds S       length of each measurement (8)
  --warm S          load before each measurement that is not counted (3)
  --connections N   connections of the load generator, the same for all (256)
  --tenants N       tenants that the load is spread over, a key each (50)
  --backlog N       messages of the backlog that is drained (30000)
  --idempotent      every request carries an idempotency key
  --keyring KIND    vault: a real one, built once where none is installed; local: a folder (vault)
  --seed N          order of the contestants (from the clock; printed with the result)
  --only A,B        measures these alone, see below; targets that need others say "not measured"
  --full            growth as well: from 1 thousand to 10 million messages and from 10 to 10,000 tenants
  --resume          keeps the last result and measures again only what --only names, and growth with --full
  --grow-to N       messages of the largest database with --full (10000000)
  --write           writes services/PERFORMANCE.md
  --quick           one short round to see that all works: --rounds 1 --seconds 3 --warm 1 --backlog 5000
                    --keyring local --grow-to 100000
  --profile DIR     writes CPU profiles of api and worker there
  --json            prints the result as JSON instead of tables
  --help            this text

About seven minutes a round, and an hour for --full, on two cores.

Contestants: ${CONTESTANT_NAMES.join(' ')}
`;

/** @throws TypeError with a sentence for the user. */
export function parseOptions(args: readonly string[]): BenchOptions | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      warm: { type: 'string' },
      connections: { type: 'string', default: '256' },
      tenants: { type: 'string', default: '50' },
      backlog: { type: 'string' },
      idempotent: { type: 'boolean', default: false },
      keyring: { type: 'string' },
      seed: { type: 'string' },
      only: { type: 'string' },
      full: { type: 'boolean', default: false },
      resume: { type: 'boolean', default: false },
      'grow-to': { type: 'string' },
      write: { type: 'boolean', default: false },
      profile: { type: 'string' },
      quick: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  const { quick } = values;
  if (values.resume && !values.full && values.only === undefined) {
    throw new TypeError('--resume needs --only or --full');
  }
  return {
    rounds: whole('rounds', values.rounds ?? (quick ? '1' : '5'), 100),
    measureMs: 1_000 * whole('seconds', values.seconds ?? (quick ? '3' : '8'), 600),
    warmMs: 1_000 * whole('warm', values.warm ?? (quick ? '1' : '3'), 600),
    connections: whole('connections', values.connections, 10_000),
    tenants: whole('tenants', values.tenants, 10_000),
    backlog: whole('backlog', values.backlog ?? (quick ? '5000' : '30000'), 1_000_000),
    isIdempotent: values.idempotent,
    keyring: oneOf('keyring', ['vault', 'local'], values.keyring ?? (quick ? 'local' : 'vault')),
    seed: whole('seed', values.seed ?? String(1 + (Date.now() % 1_000_000)), 1_000_000),
    only: (values.only?.split(',') ?? (values.resume ? [] : CONTESTANT_NAMES)).map((name) =>
      oneOf('only', CONTESTANT_NAMES, name),
    ),
    measuresGrowth: values.full,
    resumes: values.resume,
    growTo: whole('grow-to', values['grow-to'] ?? (quick ? '100000' : '10000000'), 100_000_000),
    writesPage: values.write,
    printsJson: values.json,
    profileFolder: values.profile,
  };
}

function whole(name: string, value: string, max: number): number {
  const number = Number(value);
  if (/^[1-9]\d*$/.test(value) && number <= max) return number;
  throw new TypeError(`--${name} must be a whole number from 1 to ${max}`);
}

function oneOf<Word extends string>(name: string, words: readonly Word[], value: string): Word {
  const word = words.find((one) => one === value);
  if (word === undefined) throw new TypeError(`--${name} takes ${words.join(', ')}; not ${value}`);
  return word;
}
