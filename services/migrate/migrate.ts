import { secret } from '#core/domain/storage/secret.ts';
import { openPostgres, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { VERSION } from '#core/platform/process/version.ts';
import {
  functionFiles,
  migrationFiles,
  migrationSql,
  type FunctionFile,
} from '#core/store/schema/migration-files.ts';
import { applyFunctions, type AppliedFunctions } from './apply-functions.ts';
import { createLockRetries, type LockWait } from './lock-retries.ts';
import { makePartitions } from './make-partitions.ts';
import { prepareRoles, type RolePasswords } from './prepare-roles.ts';
import { assertServerVersion } from './server-version.ts';

/** The advisory lock of every migration of a Despatch database; "despatch" in ASCII, first seven bytes. */
export const MIGRATION_LOCK = 0x64_65_73_70_61_74_63n;

/** Requests that need a table queue behind a migration that waits for its lock, so the wait is short. */
const LOCK_TIMEOUT_MS = 1_000;
const LOCK_WAIT_MS_MAX = 600_000;
const STATEMENT_TIMEOUT_MS = 600_000;
const RUNS_PAUSE_MS = 1_000;

export type Migration = { readonly version: number; readonly name: string; readonly sql: () => string };

export type MigrateOptions = {
  /** A role that may create roles and schemas in the database, usually the database's owner with CREATEROLE. */
  readonly databaseUrl: string;
  /** Passwords of the login roles `despatch_api`, `despatch_worker`, `despatch_controller`; an absent one is not changed. */
  readonly passwords: RolePasswords;
  readonly caFile?: string;
  /**
   * How long a statement waits for a lock before it gives way to the requests queued behind it, in milliseconds. Default 1,000.
   */
  readonly lockTimeoutMs?: number;
  /** How long a migration is retried for its locks, in milliseconds. Default 600,000. */
  readonly lockWaitMsMax?: number;
  /** Called for every wait. */
  readonly onWait?: (wait: LockWait) => void;
  readonly onApplied?: (name: string) => void;
  /** Default: those of this build. */
  readonly migrations?: readonly Migration[];
  /** Default: those of this build. */
  readonly functions?: readonly FunctionFile[];
  /** Default: that of this build. */
  readonly version?: string;
  /**
   * Whether no other build uses the database, as in the quick start of a working tree: its functions replace newer ones too, so
   * that an edit that was undone is undone in the database. Default false.
   */
  readonly isOnlyBuild?: boolean;
};

export type Migrated = {
  /** Names of the migrations that this run applied. */
  readonly applied: readonly string[];
  /** Names of the functions that this run applied. */
  readonly functions: readonly string[];
  /** Names of functions in the database that have no file in this build. */
  readonly unused: readonly string[];
  /** Tables whose future partitions are left to the workers, because other sessions held locks. */
  readonly unprepared: readonly string[];
  /** Whether the functions of a newer build were left in force. */
  readonly isNewerKept: boolean;
};

/**
 * Brings the schema up to date: forward-only numbered files, each in one transaction with its version row; then the functions
 * whose text has changed, in one transaction; then the partitions of the coming weeks. All under one advisory lock, so that any
 * number of concurrent runs end in the same state. Idempotent. A build older than the schema applies no function; one older than
 * the functions in force replaces none, unless it is the only build.
 * @throws ServerVersionError if the server is too old; LockWaitError if a step did not get its locks in time; FunctionFileError
 *   if a function is invalid. The failed step has changed nothing.
 */
export async function migrate(options: MigrateOptions): Promise<Migrated> {
  const { lockTimeoutMs = LOCK_TIMEOUT_MS, migrations = ownMigrations() } = options;
  const open = (applicationName: string) =>
    openPostgres({
      url: secret(options.databaseUrl),
      poolMax: 1,
      statementTimeoutMs: STATEMENT_TIMEOUT_MS,
      caFile: options.caFile,
      applicationName,
    });
  await using database = open('despatch-migrate');
  await using observer = open('despatch-migrate');
  const { sql } = database;
  await assertServerVersion(sql);
  const [own] = await sql<{ pid: number }[]>`select pg_backend_pid() as pid`;
  const retries = createLockRetries({
    observer: observer.sql,
    pid: own?.pid ?? 0,
    advisoryLock: MIGRATION_LOCK,
    lockTimeoutMs,
    waitMsMax: options.lockWaitMsMax ?? LOCK_WAIT_MS_MAX,
    onWait: options.onWait ?? (() => {}),
  });

  // Polled: a statement that waits for the lock would hold a snapshot and keep vacuum from removing dead rows.
  const lockOutOthers = async (): Promise<boolean> => {
    const [lock] = await sql<{ mine: boolean }[]>`
      select pg_try_advisory_lock(${MIGRATION_LOCK.toString()}::bigint) as mine`;
    return lock?.mine === true;
  };

  /** Runs a transaction, and retries it until it gets all its locks. */
  const step = (name: string, work: (tx: TransactionSql) => Promise<unknown>): Promise<void> =>
    retries.run(name, async () => {
      await sql.begin(async (tx) => {
        await tx`select set_config('lock_timeout', ${`${lockTimeoutMs}ms`}, true)`;
        // Held by this session already, unless the pool had to connect anew since.
        const [lock] = await tx<{ mine: boolean }[]>`
          select pg_try_advisory_xact_lock(${MIGRATION_LOCK.toString()}::bigint) as mine`;
        if (lock?.mine !== true) throw new Error(`${name}: another migration has begun meanwhile`);
        await work(tx);
      });
      return true;
    });

  await retries.run('another migration', lockOutOthers, RUNS_PAUSE_MS);
  try {
    await step('roles', (tx) => prepareRoles(tx, options.passwords));
    const done = await sql<
      { version: number; name: string }[]
    >`select version, name from despatch.migrations`;
    const names = new Set(done.map(({ name }) => name));
    const applied: string[] = [];
    for (const migration of migrations.filter(({ name }) => !names.has(name))) {
      await step(migration.name, (tx) => apply(tx, migration));
      options.onApplied?.(migration.name);
      applied.push(migration.name);
    }
    if (lastOf(done) > lastOf(migrations))
      return { applied, functions: [], unused: [], unprepared: [], isNewerKept: true };
    let changed: AppliedFunctions = { applied: [], unused: [], isNewerKept: false };
    await step('functions', async (tx) => {
      changed = await applyFunctions(tx, {
        files: options.functions ?? functionFiles(),
        version: options.version ?? VERSION,
        replacesNewer: options.isOnlyBuild,
      });
    });
    for (const name of changed.applied) options.onApplied?.(`functions/${name}.sql`);
    return {
      applied,
      functions: changed.applied,
      unused: changed.unused,
      unprepared: await makePartitions(sql),
      isNewerKept: changed.isNewerKept,
    };
  } finally {
    await sql`select pg_advisory_unlock(${MIGRATION_LOCK.toString()}::bigint)`;
  }
}

async function apply(tx: TransactionSql, { version, name, sql }: Migration): Promise<void> {
  await tx`set local role despatch_definer`;
  await tx`insert into despatch.migrations (version, name) values (${version}, ${name})`;
  await tx.unsafe(sql());
}

function ownMigrations(): Migration[] {
  return migrationFiles().map(({ version, name }) => ({ version, name, sql: () => migrationSql(name) }));
}

function lastOf(migrations: readonly { readonly version: number }[]): number {
  return Math.max(0, ...migrations.map(({ version }) => version));
}
