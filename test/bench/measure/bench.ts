import type { Sql } from '#core/platform/postgres/postgres.ts';
import type { LoadCommand, LoadEvent, LoadResult } from '../processes/load-process.ts';
import type { LoopCommand } from '../processes/loop-process.ts';
import type { PostCommand } from '../processes/post-process.ts';
import type { ProviderCommand, ProviderResult } from '../processes/provider-process.ts';
import type { PublishCommand } from '../processes/publish-process.ts';
import type { ReceiverCommand, ReceiverResult } from '../processes/receiver-process.ts';
import type { RowsCommand } from '../processes/rows-process.ts';
import type { BenchOptions } from '../options.ts';
import type { BenchStack, World } from '../stack/stack.ts';
import { startContestant, type Contestant } from './contestant.ts';
import { startHelper, type HelperProcess, type ProcessExtras } from './helper.ts';
import type { Ledger } from './ledger.ts';
import { createMeter, type Cost, type Meter } from './meter.ts';

export type Bench = {
  readonly options: BenchOptions;
  readonly stack: BenchStack;
  readonly helpers: Helpers;
};

export type Helpers = {
  readonly load: HelperProcess<LoadCommand, LoadResult, LoadEvent>;
  /** A second load generator, for the traffic beside the load. */
  readonly storm: HelperProcess<LoadCommand, LoadResult, LoadEvent>;
  readonly provider: HelperProcess<ProviderCommand, ProviderResult>;
  readonly loop: HelperProcess<LoopCommand, number>;
  readonly rows: HelperProcess<RowsCommand, number>;
  readonly publish: HelperProcess<PublishCommand, number>;
  readonly receiver: HelperProcess<ReceiverCommand, ReceiverResult>;
  readonly post: HelperProcess<PostCommand, number>;
};

/** The result of one measurement. */
export type Measured = {
  readonly figures: Readonly<Record<string, number>>;
  /** Cost per message, while the rate was measured. */
  readonly cost?: Cost;
  /** Cost at parts of the load, by percent, or under other conditions, by their name. */
  readonly costAt?: Readonly<Record<string, Cost>>;
  readonly ledger?: Ledger;
  /** Answers other than success, by status. */
  readonly refused?: Readonly<Record<string, number>>;
};

export async function startHelpers(resources: AsyncDisposableStack): Promise<Helpers> {
  return {
    load: resources.use(await startHelper('load-process.ts')),
    storm: resources.use(await startHelper('load-process.ts')),
    provider: resources.use(await startHelper('provider-process.ts')),
    loop: resources.use(await startHelper('loop-process.ts')),
    rows: resources.use(await startHelper('rows-process.ts')),
    publish: resources.use(await startHelper('publish-process.ts')),
    receiver: resources.use(await startHelper('receiver-process.ts')),
    post: resources.use(await startHelper('post-process.ts')),
  };
}

/** Starts one of the services; its worker calls the stand-in instead of Twilio. */
export async function startService(
  { stack, options, helpers }: Bench,
  world: World,
  role: 'api' | 'worker',
  extras: ProcessExtras = {},
): Promise<Contestant> {
  const { port } = await helpers.provider.run('count');
  const twilio = role === 'worker' ? { PROVIDER_BASE_URLS: `twilio=http://127.0.0.1:${port}` } : {};
  return startContestant({
    name: role,
    script: `services/${role}/main.ts`,
    environment: { ...world.environment(role), ...twilio, ...extras.environment },
    nodeArguments: extras.nodeArguments ?? [],
    logFolder: stack.folder,
    profileFolder: options.profileFolder,
  });
}

/** Starts a program of the bench, with the database, the keys and the provider in its environment. */
export async function startProgram(
  { stack, helpers }: Bench,
  world: World,
  script: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<Contestant> {
  const { port } = await helpers.provider.run('count');
  return startContestant({
    name: script,
    script: `test/bench/processes/${script}`,
    environment: {
      ...world.environment('api'),
      OWNER_DATABASE_URL: world.ownerUrl,
      PROVIDER_PORT: String(port),
      ...environment,
    },
    logFolder: stack.folder,
  });
}

export type Measuring = {
  readonly bench: Bench;
  readonly world: { readonly admin: Sql };
  /** By role, `api` and `worker`. */
  readonly services?: Readonly<Record<string, Contestant>>;
  /** Process ids of a helper that is itself the contestant. */
  readonly helper?: Readonly<Record<string, number>>;
  /** The services are the project's own: their Vault calls are counted where there is a Vault. */
  readonly asksVault?: boolean;
};

export function meterOf(measuring: Measuring): Meter {
  const { bench, world, services = {}, helper = {}, asksVault = false } = measuring;
  const { stack, helpers } = bench;
  const { postgres, ...servers } = stack.pids;
  const counts = asksVault && servers.vault !== undefined;
  return createMeter({
    admin: world.admin,
    postgresPid: postgres,
    pids: {
      ...Object.fromEntries(Object.entries(services).map(([name, { pid }]) => [name, pid])),
      ...helper,
      ...servers,
      load: helpers.load.pid,
      provider: helpers.provider.pid,
    },
    metricsPorts: counts ? Object.values(services).map(({ metricsPort }) => metricsPort) : [],
  });
}
