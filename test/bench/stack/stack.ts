import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { secret } from '#core/domain/secret.ts';
import { createLogger } from '#core/platform/telemetry/logger.ts';
import { openNats } from '#core/platform/nats/nats.ts';
import { openPostgres, type Sql } from '#core/platform/postgres/postgres.ts';
import type { Nats } from '#core/platform/nats/broker.ts';
import { startNats } from '../../../deploy/servers/nats.ts';
import { startPostgres } from '../../../deploy/servers/postgres.ts';
import { migrate } from '../../../services/migrate/migrate.ts';
import { openBenchKeyring } from './keyring.ts';
import { createPlainTable } from './layout.ts';
import { createTenantPool, type BenchTenant } from './seed.ts';

/** Servers of the whole run. */
export type BenchStack = AsyncDisposable & {
  readonly pids: { readonly postgres: number; readonly nats: number; readonly vault?: number };
  readonly natsUrl: string;
  /** Root of the api's keys, among them the one that signs cursors. */
  readonly pepper: string;
  readonly tenants: readonly BenchTenant[];
  readonly folder: string;
  readonly settings: Readonly<Record<string, string>>;
  /** A database of its own with the tenants in it, and a stream of its own. */
  world(): Promise<World>;
  /** Further tenants for one world. */
  addTenants(world: World, count: number): Promise<BenchTenant[]>;
};

/** What one measurement begins with. */
export type World = AsyncDisposable & {
  readonly database: string;
  readonly admin: Sql;
  readonly nats: Nats;
  /** Of a role that may do everything. */
  readonly ownerUrl: string;
  /** Configuration of a service in this world. */
  environment(role: 'api' | 'worker'): Record<string, string>;
};

const TEMPLATE = 'bench_template';
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
  readonly log: (line: string) => void;
};

export async function openStack({ tenants: count, keyring: kind, log }: StackOptions): Promise<BenchStack> {
  await using stack = new AsyncDisposableStack();
  const folder = await mkdtemp(join(tmpdir(), 'despatch-bench-'));
  stack.defer(() => rm(folder, { recursive: true, force: true }));
  const [postgres, nats] = await Promise.all([
    startPostgres({ durable: true, settings: POSTGRES_SETTINGS, log }).then((server) => stack.use(server)),
    startNats({ log }).then((server) => stack.use(server)),
  ]);
  const open = (database?: string, login?: { user: string; password: string }) =>
    openPostgres({
      url: secret(
        login === undefined ? postgres.superuserUrl(database) : urlAs(postgres.superuserUrl(database), login),
      ),
      poolMax: 2,
      statementTimeoutMs: 600_000,
      applicationName: 'bench',
    });
  const { sql } = stack.use(open());
  const word = (): string => randomBytes(18).toString('hex');
  const [pepper, passwords] = [word(), { api: word(), worker: word() }];
  // A name of its own, so that what the bench asks can be told from what it measures.
  const observer = { user: 'bench_observer', password: word() };
  await sql.unsafe(`create role ${observer.user} superuser login password '${observer.password}'`);
  await sql`create database ${sql(TEMPLATE)}`;
  await migrate({
    databaseUrl: postgres.superuserUrl(TEMPLATE),
    passwords,
  });
  const keys = stack.use(await openBenchKeyring(kind, join(folder, 'keyring'), log));
  const pool = createTenantPool(keys.keyring, pepper);
  const tenants = await (async () => {
    await using template = open(TEMPLATE);
    await template.sql`create extension pg_stat_statements`;
    await createPlainTable(template.sql);
    return await pool.writeTo(template.sql, 0, count);
  })();
  const settings = await sql<{ name: string; setting: string }[]>`
    select name, current_setting(name) as setting from pg_settings where name = any (${SHOWN_SETTINGS})`;

  const environments = {
    api: {
      KEY_PEPPER: pepper,
      PUBLIC_BASE_URL: 'http://127.0.0.1',
      OIDC_ISSUER: 'http://127.0.0.1:9',
      OIDC_JWKS_URL: 'http://127.0.0.1:9/jwks.json',
      OIDC_AUDIENCE: 'bench',
      SHUTDOWN_DELAY_MS: '0',
    },
    worker: { WORKER_NAME: 'bench' },
  };
  let worlds = 0;
  async function world(): Promise<World> {
    await using parts = new AsyncDisposableStack();
    const database = `bench_${++worlds}`;
    await sql`create database ${sql(database)} template ${sql(TEMPLATE)}`;
    parts.defer(async () => void (await sql`drop database ${sql(database)} with (force)`));
    const admin = parts.use(open(database, observer)).sql;
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
        const login = { user: `despatch_${role}`, password: passwords[role] };
        return {
          DESPATCH_ENV: 'development',
          DATABASE_URL: urlAs(postgres.superuserUrl(database), login),
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
    folder,
    settings: Object.fromEntries(settings.map(({ name, setting }) => [name, setting])),
    world,
    addTenants: ({ admin }, more) => pool.writeTo(admin, count, count + more),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function urlAs(base: string, { user, password }: { user: string; password: string }): string {
  const url = new URL(base);
  url.username = user;
  url.password = password;
  return url.href;
}

const POSTGRES_SETTINGS = {
  shared_buffers: '2GB',
  max_wal_size: '4GB',
  shared_preload_libraries: 'pg_stat_statements',
};
