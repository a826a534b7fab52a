import { parseArgs } from 'node:util';

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
  readonly printsJson: boolean;
  /** Folder for the CPU profiles of api and worker. */
  readonly profileFolder: string | undefined;
};

export const HELP = `npm run bench [-- options]

Measures the service against its floors on this machine, each contestant in processes of its own and in turn, round
after round, on a Postgres that syncs every commit. Ratios within one run are what counts; absolute figures are the
machine's. The result is also written to .despatch/bench.json.

  --rounds N        rounds, the median of which is reported (3)
  --seconds S       length of each measurement (5)
  --warm S          load before each measurement that is not counted (3)
  --connections N   connections of the load generator (64)
  --tenants N       tenants that the load is spread over, a key each (50)
  --backlog N       messages of the backlog that is drained (20000)
  --idempotent      every request carries an idempotency key
  --profile DIR     writes CPU profiles of api and worker there
  --quick           one round of short measurements: --rounds 1 --seconds 3 --warm 2 --backlog 10000
  --json            prints the result as JSON instead of tables
  --help            this text

accept  floor        bare fastify and zod, answering 202 without any I/O
accept  stopped      the api as it is; its worker is stopped
accept  running      the api as it is, delivering meanwhile
accept  transaction  the same checks, tables and wake-ups in a transaction per request, pool of 10
drain   worker       a backlog, through the worker to the provider, until all of it is recorded
drain   loop         a bare undici loop to the same provider
`;

/** @throws TypeError with a sentence for the user. */
export function parseOptions(args: readonly string[]): BenchOptions | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      warm: { type: 'string' },
      connections: { type: 'string', default: '64' },
      tenants: { type: 'string', default: '50' },
      backlog: { type: 'string' },
      idempotent: { type: 'boolean', default: false },
      profile: { type: 'string' },
      quick: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  const { quick } = values;
  return {
    rounds: whole('rounds', values.rounds ?? (quick ? '1' : '3'), 100),
    measureMs: 1_000 * whole('seconds', values.seconds ?? (quick ? '3' : '5'), 600),
    warmMs: 1_000 * whole('warm', values.warm ?? (quick ? '2' : '3'), 600),
    connections: whole('connections', values.connections, 10_000),
    tenants: whole('tenants', values.tenants, 10_000),
    backlog: whole('backlog', values.backlog ?? (quick ? '10000' : '20000'), 1_000_000),
    isIdempotent: values.idempotent,
    printsJson: values.json,
    profileFolder: values.profile,
  };
}

function whole(name: string, value: string, max: number): number {
  const number = Number(value);
  if (/^[1-9]\d*$/.test(value) && number <= max) return number;
  throw new TypeError(`--${name} must be a whole number from 1 to ${max}`);
}
