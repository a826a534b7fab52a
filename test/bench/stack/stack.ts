import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { secret } from '#core/domain/storage/secret.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import { openNats } from '#core/platform/nats/nats.ts';
import { openPostgres, type Sql } from '#core/platform/postgres/postgres.ts';
import type { Nats } from '#core/platform/nats/nats-types.ts';
import type { KeyEncrypter } from '#core/platform/vault/keyring.ts';
import { loginUrl } from '../../../deploy/servers/login-url.ts';
import { startNats } from '../../../deploy/servers/nats.ts';
import { startPostgres } from '../../../deploy/servers/postgres.ts';
import { openBenchKeyring } from './keyring.ts';
import { createTenantPool, type BenchTenant } from './seed.ts';
import { openStackState } from './stack-state.ts';
import { ensureTemplate, OBSERVER, TEMPLATE } from './template.ts';

/** The servers of a run. */
export type BenchStack = AsyncDisposable & {
  readonly pids: { readonly postgres: number; readonly nats: number; readonly vault?: number };
  readonly natsUrl: string;
  /** Root of the api's keys, including the one that signs cursors. */
  readonly pepper: string;
  readonly tenants: readonly BenchTenant[];
  /** The api's encrypter. */
  readonly encrypter: Pick<KeyEncrypter, 'encrypt'>;
  /** Folder of logs and other small files. */
  readonly folder: string;
  /** Postgres' data folder. */
  readonly dataFolder: string;
  readonly settings: Readonly<Record<string, string>>;
  /** Opens a database with the tenants in it and a stream of its own. A named database is kept and found again. */
  world(name?: string): Promise<World>;
  dropWorld(name: string): Promise<void>;
  /** Adds further tenants to one world. */
  addTenants(world: World, count: number): Promise<BenchTenant[]>;
  /** Returns the added tenants of a world that was found again. */
  addedTenants(count: number): BenchTenant[];
};

/** The database, stream and tenants that one measurement starts with. */
export type World = AsyncDisposable & {
  readonly database: string;
  readonly admin: Sql;
  readonly nats: Nats;
  /** URL of a role that may do everything. */
  readonly ownerUrl: string;
  /** Returns the configuration of a service in this world. */
  environment(role: 'api' | 'worker'): Record<string, string>;
};

const SHOWN_SETTINGS = [
  'server_version',
  'fsync',
  'synchronous_commit',
  'full_page_writes',
  'wal_sync_method',
  'commit_delay',
  'shared_buffers',
  'max_wal_size',
  'checkpoint_timeout',
  'autovacuum',
];

export type StackOptions = {
  readonly tenants: number;
  readonly keyring: 'vault' | 'local';
  /** Keeps the databases in this folder for a later run. Default: a temporary folder that is deleted with the stack. */
  readonly keptIn?: string | undefined;
  readonly log: (line: string) => void;
};

export async function openStack(options: StackOptions): Promise<BenchStack> {
  const { tenants: count, keyring: kind, keptIn, log } = options;
  await using stack = new AsyncDisposableStack();
  const folder =
    keptIn === undefined ? await mkdtemp(join(tmpdir(), 'despatch-bench-')) : await made(resolve(keptIn));
  const isKept = keptIn !== undefined;
  if (!isKept) stack.defer(() => rm(folder, { recursive: true, force: true }));
  const kept = await openStackState(isKept ? folder : undefined, { tenants: count, keyring: kind });
  const { pepper, passwords } = kept.state;
  const [postgres, nats] = await Promise.all([
    startPostgres({
      durable: true,
      settings: POSTGRES_SETTINGS,
      log,
      ...(isKept ? { dir: join(folder, 'postgres') } : {}),
    }).then((server) => stack.use(server)),
    // NATS keeps nothing: Postgres contains everything that its stream held.
    startNats({ log }).then((server) => stack.use(server)),
  ]);
  const open = (database?: string, login?: { user: string; password: string }) =>
    openPostgres({
      url: secret(
        login === undefined
          ? postgres.superuserUrl(database)
          : loginUrl(postgres.superuserUrl(database), login.user, login.password),
      ),
      poolMax: 2,
      statementTimeoutMs: 600_000,
      applicationName: 'bench',
    });
  const { sql } = stack.use(open());
  const keys = stack.use(await openBenchKeyring({ kind, folder: join(folder, 'keyring'), isKept, log }));
  const pool = createTenantPool(keys.keyring, pepper, kept.state.made, () => kept.save());
  const urlOf = (database: string): string => postgres.superuserUrl(database);
  const tenants = await ensureTemplate({ kept, sql, urlOf, open, pool });
  const settings = await sql<{ name: string; setting: string }[]>`
    select name, current_setting(name) as setting from pg_settings where name = any (${SHOWN_SETTINGS})`;

  const environments = {
    api: {
      KEY_PEPPER: pepper,
      RECEIPT_PEPPER: pepper,
      PUBLIC_BASE_URL: 'http://127.0.0.1',
      OIDC_ISSUER: 'http://127.0.0.1:9',
      OIDC_JWKS_URL: 'http://127.0.0.1:9/jwks.json',
      OIDC_AUDIENCE: 'bench',
      SHUTDOWN_DELAY_MS: '0',
    },
    worker: { WORKER_NAME: 'bench', RECEIPT_PEPPER: pepper },
  };
  let worlds = 0;
  const dropWorld = async (database: string): Promise<void> =>
    void (await sql`drop database if exists ${sql(database)} with (force)`);
  async function world(name?: string): Promise<World> {
    await using parts = new AsyncDisposableStack();
    const database = name ?? `bench_${++worlds}`;
    // An unnamed database that exists already was left by a killed run.
    if (name === undefined) await dropWorld(database);
    const [found] = await sql`select 1 from pg_database where datname = ${database}`;
    if (found === undefined) await sql`create database ${sql(database)} template ${sql(TEMPLATE)}`;
    if (name === undefined) parts.defer(() => dropWorld(database));
    const admin = parts.use(open(database, { user: OBSERVER, password: passwords.observer })).sql;
    const broker = parts.use(
      await openNats({
        config: { servers: [nats.url], prefix: database, replicas: 1 },
        log: createLogger({ level: 'error', component: 'bench' }),
        name: 'bench',
      }),
    );
    await broker.ensureStream();
    const owned = parts.move();
    return {
      database,
      admin,
      nats: broker,
      ownerUrl: postgres.superuserUrl(database),
      environment(role) {
        return {
          DESPATCH_ENV: 'development',
          DATABASE_URL: loginUrl(postgres.superuserUrl(database), `despatch_${role}`, passwords[role]),
          NATS_URL: nats.url,
          NATS_PREFIX: database,
          ...keys.environment(role),
          METRICS_HOST: '127.0.0.1',
          ...environments[role],
        };
      },
      [Symbol.asyncDispose]: () => owned.disposeAsync(),
    };
  }

  const owned = stack.move();
  return {
    pids: {
      postgres: postgres.pid,
      nats: nats.pid,
      ...(keys.vaultPid === undefined ? {} : { vault: keys.vaultPid }),
    },
    natsUrl: nats.url,
    pepper,
    tenants,
    encrypter: keys.keyring,
    folder,
    dataFolder: postgres.dir,
    settings: Object.fromEntries(settings.map(({ name, setting }) => [name, setting])),
    world,
    dropWorld,
    addTenants: ({ admin }, more) => pool.writeTo(admin, count, count + more),
    addedTenants: (more) => pool.known(count, count + more),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function made(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true, mode: 0o711 });
  return folder;
}

const POSTGRES_SETTINGS = {
  shared_buffers: '2GB',
  max_wal_size: '4GB',
  shared_preload_libraries: 'pg_stat_statements',
};
