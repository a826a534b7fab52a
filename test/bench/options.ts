import { parseArgs } from 'node:util';
import { CONTESTANT_GROUPS, CONTESTANT_NAMES, isPaced, type ContestantName } from './contestants.ts';
import { GROWTH_PART_NAMES, type GrowthPart } from './measure/growth-parts.ts';

export type BenchOptions = {
  readonly measures: 'rounds' | 'growth' | 'soak';
  readonly rounds: number;
  /** Length of each measurement. */
  readonly measureMs: number;
  /** Length of the load before each measurement, which is not counted. */
  readonly warmMs: number;
  /** Messages per second that count as 100 % of the load; undefined: the rate that the service sustains. */
  readonly maximum: number | undefined;
  readonly connections: number;
  readonly tenants: number;
  /** Messages of the backlog that is drained; also the number of receipts and events in their backlogs. */
  readonly backlog: number;
  /** Every request carries an idempotency key. */
  readonly isIdempotent: boolean;
  /** Where tenants' keys are kept. */
  readonly keyring: 'vault' | 'local';
  /** Determines the order of the contestants. */
  readonly seed: number;
  /** The contestants of the rounds; all unless chosen. */
  readonly only: readonly ContestantName[];
  /** Keeps the rounds of the last result, except for the contestants in `only`. */
  readonly resumes: boolean;
  /** Another checkout of the project, measured alternately with this one in each round. */
  readonly beside: string | undefined;
  /** Messages in the largest database of growth. */
  readonly growTo: number;
  /** The parts of growth; all unless chosen. */
  readonly parts: readonly GrowthPart[];
  /** Rows that growth plants beside messages. */
  readonly plant: number;
  readonly soakMinutes: number;
  /** Load of the soak in percent of the maximum. */
  readonly sharePercent: number;
  /** Folder in which growth and soak keep their state and databases; undefined: they keep nothing. */
  readonly keptIn: string | undefined;
  readonly writesPage: boolean;
  readonly printsJson: boolean;
  /** Folder for the CPU profiles of api and worker. */
  readonly profileFolder: string | undefined;
};

/** Parses the command line. @throws TypeError with a sentence for the user. */
export function parseOptions(args: readonly string[]): BenchOptions | 'help' {
  const { values } = parseArgs({
    args: [...args],
    options: {
      growth: { type: 'boolean', default: false },
      soak: { type: 'string' },
      rounds: { type: 'string' },
      seconds: { type: 'string' },
      warm: { type: 'string' },
      maximum: { type: 'string' },
      connections: { type: 'string', default: '256' },
      tenants: { type: 'string', default: '50' },
      backlog: { type: 'string' },
      idempotent: { type: 'boolean', default: false },
      keyring: { type: 'string' },
      seed: { type: 'string' },
      only: { type: 'string' },
      resume: { type: 'boolean', default: false },
      beside: { type: 'string' },
      'grow-to': { type: 'string' },
      plant: { type: 'string' },
      share: { type: 'string' },
      dir: { type: 'string' },
      write: { type: 'boolean', default: false },
      profile: { type: 'string' },
      quick: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return 'help';
  const { quick } = values;
  if (values.growth && values.soak !== undefined) throw new TypeError('--growth and --soak are two commands');
  const measures = values.growth ? 'growth' : values.soak === undefined ? 'rounds' : 'soak';
  refuseStrangers(measures, values);
  const maximum = values.maximum === undefined ? undefined : whole('maximum', values.maximum, 100_000);
  const names = values.only?.split(',');
  const parts =
    measures === 'growth' && names !== undefined
      ? GROWTH_PART_NAMES.filter((part) =>
          names.map((name) => oneOf('only', GROWTH_PART_NAMES, name)).includes(part),
        )
      : GROWTH_PART_NAMES;
  const chosen = ((measures === 'rounds' ? names : undefined) ?? CONTESTANT_NAMES).flatMap(
    (name) => CONTESTANT_GROUPS[name] ?? [oneOf('only', CONTESTANT_NAMES, name)],
  );
  const only = [...new Set(chosen)];
  const paced = only.find(isPaced);
  if (paced !== undefined && !values.resume && maximum === undefined && !only.includes('running')) {
    throw new TypeError(`${paced} needs running beside it, or --maximum`);
  }
  if (values.beside !== undefined && !only.includes('running') && maximum === undefined && !values.resume)
    throw new TypeError('--beside needs running, or --maximum');
  return {
    measures,
    rounds: whole('rounds', values.rounds ?? (quick ? '1' : '5'), 100),
    measureMs: 1_000 * whole('seconds', values.seconds ?? (quick ? '3' : '8'), 600),
    warmMs: 1_000 * whole('warm', values.warm ?? (quick ? '1' : '3'), 600),
    maximum,
    connections: whole('connections', values.connections, 10_000),
    tenants: whole('tenants', values.tenants, 10_000),
    backlog: whole('backlog', values.backlog ?? (quick ? '5000' : '30000'), 1_000_000),
    isIdempotent: values.idempotent,
    keyring: oneOf('keyring', ['vault', 'local'], values.keyring ?? (quick ? 'local' : 'vault')),
    seed: whole('seed', values.seed ?? String(1 + (Date.now() % 1_000_000)), 1_000_000),
    only,
    resumes: values.resume,
    beside: values.beside,
    growTo: whole('grow-to', values['grow-to'] ?? (quick ? '100000' : '10000000'), 100_000_000),
    parts,
    plant: whole('plant', values.plant ?? (quick ? '10000' : '1000000'), 10_000_000),
    soakMinutes: whole('soak', values.soak ?? '60', 10_000),
    sharePercent: whole('share', values.share ?? '70', 100),
    keptIn: values.dir,
    writesPage: values.write,
    printsJson: values.json,
    profileFolder: values.profile,
  };
}

/** Options that only some commands have, with these commands. */
const COMMANDS_OF = {
  rounds: ['rounds'],
  only: ['rounds', 'growth'],
  resume: ['rounds'],
  backlog: ['rounds'],
  beside: ['rounds'],
  'grow-to': ['growth'],
  plant: ['growth'],
  share: ['soak'],
  dir: ['growth', 'soak'],
} as const satisfies Record<string, readonly BenchOptions['measures'][]>;

type GivenOptions = { readonly [Name in keyof typeof COMMANDS_OF]?: string | boolean | undefined };

function refuseStrangers(measures: BenchOptions['measures'], given: GivenOptions): void {
  for (const [name, commands] of Object.entries(COMMANDS_OF)) {
    const value = given[name as keyof GivenOptions];
    if (value === undefined || value === false || (commands as readonly string[]).includes(measures))
      continue;
    throw new TypeError(`--${name} is for ${commands.join(' and ')} alone`);
  }
  if (given.resume === true && given.only === undefined) throw new TypeError('--resume needs --only');
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
