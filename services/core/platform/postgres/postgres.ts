import { hostname } from 'node:os';
import type driver from 'postgres';
import { newProcessName } from '#core/domain/storage/ids.ts';
import type { Secret } from '#core/domain/storage/secret.ts';
import { answerWithin } from '../process/deadline.ts';
import { renewedFile } from '../process/renewed-file.ts';
import { watchedCertificate, type CertificateLife } from '../process/watched-certificate.ts';
import { observeBackends, postgres } from './postgres-driver.ts';
import { serverCheck } from './server-check.ts';
import { watchSilentConnections } from './silent-connections.ts';

export type Sql = driver.Sql;
export type TransactionSql = driver.TransactionSql;
export type Json = driver.JSONValue;

export type PostgresConfig = {
  readonly url: Secret;
  /** Connections of this process, 1 to 200. */
  readonly poolMax: number;
  /** Server-side limit of one statement in milliseconds; the client's own deadline is a second longer. */
  readonly statementTimeoutMs: number;
  /** PEM file that signs the server's certificate; its presence turns verification on (verify-full). */
  readonly caFile?: string | undefined;
  /** Called for each connection whose server was verified. */
  readonly onCertificate?: ((life: CertificateLife) => void) | undefined;
  /** Shown in pg_stat_activity, followed by the host and a part unique to the pool. At most 19 bytes. */
  readonly applicationName: string;
};

export type Postgres = AsyncDisposable & {
  readonly sql: Sql;
  /** The name of its connections in pg_stat_activity. */
  readonly name: string;
};

/**
 * Returns a parameter of type `json`, which is parsed once, where it is read; `sql.json` creates a `jsonb`, which is parsed
 * twice.
 */
export function asJson(sql: Sql | TransactionSql, value: unknown) {
  return sql.typed(value as never, 114);
}

/** Opens a pool. No connection is made before the first query. */
export function openPostgres(config: PostgresConfig): Postgres {
  const name = uniqueName(config.applicationName);
  const sql = openPool(config, name, config.poolMax);
  const silent = watchSilentConnections({
    limitMs: config.statementTimeoutMs + 1_000,
    async knownPids() {
      const fresh = openPool(config, name, 1);
      let own = 0;
      observeBackends(fresh, ({ pid }) => (own = pid));
      try {
        const work = fresh<{ pid: number }[]>`
          select pid from pg_stat_activity where application_name = current_setting('application_name')`;
        const known = new Set((await withDeadline(work, KNOWN_PIDS_MS)).map(({ pid }) => pid));
        // A pooler in between has process ids of its own.
        if (!known.has(own)) throw new Error('The server does not know the connection that asks');
        return known;
      } finally {
        await endPool(fresh);
      }
    },
  });
  observeBackends(sql, silent.add);
  return {
    sql,
    name,
    async [Symbol.asyncDispose]() {
      silent[Symbol.dispose]();
      await endPool(sql);
    },
  };
}

const KNOWN_PIDS_MS = 8_000;

function openPool(config: PostgresConfig, name: string, max: number): Sql {
  const hosts = (): readonly string[] => sql.options.host;
  const sql = postgres(config.url.reveal(), {
    max,
    connect_timeout: 5,
    backoff: reconnectSeconds,
    // Below the idle limits of common proxies and cloud load balancers.
    idle_timeout: 120,
    max_lifetime: 1800,
    ...(config.caFile === undefined ? {} : { ssl: verifiedBy(config.caFile, hosts, config.onCertificate) }),
    onnotice: () => undefined,
    // Days stay text as on the wire, so that no time zone can shift them.
    types: {
      day: { to: 1082, from: [1082], serialize: (day: string) => day, parse: (day: string) => day },
      bigint: { to: 20, from: [20], serialize: (n: number) => String(n), parse: Number },
    },
    connection: {
      application_name: name,
      search_path: 'despatch',
      // Override settings of the role, the database or the server: those that would change which day it is, how dates and bytes
      // are written, and what a transaction sees.
      TimeZone: 'UTC',
      DateStyle: 'ISO, YMD',
      bytea_output: 'hex',
      default_transaction_isolation: 'read committed',
      // Tests break this (mutant: synced-commits): a commit is on disk, also a standby's, before it is acknowledged.
      synchronous_commit: 'on',
      statement_timeout: config.statementTimeoutMs,
      lock_timeout: config.statementTimeoutMs,
      idle_in_transaction_session_timeout: config.statementTimeoutMs,
      // So that the server ends the connections, and with them the locks, of a process whose node is gone: after a minute instead
      // of two hours.
      tcp_keepalives_idle: 30,
      tcp_keepalives_interval: 10,
      tcp_keepalives_count: 3,
      // While an answer is not acknowledged, no keepalive is sent.
      tcp_user_timeout: 60_000,
    },
  });
  return sql;
}

/** `end` can hang after a connection was reset (postgres#1142), so the wait has a limit of its own. */
async function endPool(sql: Sql): Promise<void> {
  await withDeadline(sql.end({ timeout: 3 }), 5_000).catch(() => undefined);
}

/** TLS options of the pool. The file is read for each connection: an authority is renewed while the process runs. */
function verifiedBy(
  caFile: string,
  hosts: () => readonly string[],
  onCertificate: PostgresConfig['onCertificate'] = () => undefined,
) {
  const read = renewedFile(caFile);
  return {
    get ca() {
      return read().toString();
    },
    rejectUnauthorized: true,
    checkServerIdentity: serverCheck(hosts, watchedCertificate(onCertificate)),
  };
}

/**
 * Returns the delay before a reconnect, at most two seconds: a server that is back is found soon, and a delay longer than the
 * pool's end (3 s) would open a connection that is never closed.
 */
function reconnectSeconds(failures: number): number {
  return (0.5 + Math.random() / 2) * Math.min(3 ** failures / 100, 2);
}

/** Returns a name within Postgres's limit of 63 bytes. In a cluster the host name is the pod's, and the pid is 1 in every pod. */
function uniqueName(applicationName: string): string {
  return newProcessName(`${applicationName}@${hostname().slice(-31)}`);
}

/**
 * Returns the number of connections of these pools by state (`active`, `idle`, …), as the server sees them; the one that asks
 * counts as active.
 */
export async function connectionStates(
  sql: Sql,
  pools: readonly Pick<Postgres, 'name'>[],
): Promise<{ labels: { state: string }; value: number }[]> {
  const work = sql<{ state: string; n: number }[]>`
    select coalesce(state, 'unknown') as state, count(*) as n from pg_stat_activity
    where application_name = any (${pools.map(({ name }) => name)}::text[]) group by 1`;
  return (await withDeadline(work, STATES_MS)).map(({ state, n }) => ({ labels: { state }, value: n }));
}

/** In milliseconds. A gauge shows nothing sooner, but a query that the driver loses must not keep its next reads waiting. */
const STATES_MS = 5_000;

/**
 * Bounds a database call. The driver can lose a queued query when its connection closes (postgres#1186), so every call needs a
 * deadline of our own.
 * @throws DependencyError `deadline` if the deadline passes first.
 */
export function withDeadline<T>(work: Promise<T>, deadlineMs: number): Promise<T> {
  return answerWithin('postgres', work, deadlineMs);
}
