import { readdir, readFile } from 'node:fs/promises';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { readMetric } from './metric.ts';

/** Monotonic counters. */
type Reading = {
  readonly cpuUs: Readonly<Record<string, number>>;
  readonly walBytes: number;
  readonly statements: number;
  readonly fsyncs: number;
  readonly vaultCalls: number;
};

/** The cost per message of the work between two readings. CPU is null where there is no /proc. */
export type Cost = {
  readonly cpuUs: Readonly<Record<string, number>> | null;
  readonly walBytes: number;
  readonly statements: number;
  readonly fsyncs: number;
  /** NaN where no service calls a Vault. */
  readonly vaultCalls: number;
};

/** Returns the sum over all processes in microseconds; NaN where there is no /proc. */
export function processorUs({ cpuUs }: Cost): number {
  return cpuUs === null ? Number.NaN : Object.values(cpuUs).reduce((total, us) => total + us, 0);
}

/**
 * The processes that belong to a contestant, without load generator, stand-in and Vault; with cached credentials, Vault is not
 * called.
 */
const OWN_PROCESSES = ['api', 'worker', 'postgres', 'nats'];

/** Returns the sum over a contestant's own processes in microseconds; NaN where it was not measured. */
export function ownUsOf(cost: Cost | undefined): number {
  const cpuUs = cost?.cpuUs ?? null;
  if (cpuUs === null) return Number.NaN;
  return OWN_PROCESSES.reduce((sum, process) => sum + (cpuUs[process] ?? 0), 0);
}

export type Meter = {
  /** Starts counting. The returned function stops; the function that it returns divides by the number of messages. */
  start(): Promise<() => Promise<(messages: number) => Cost>>;
};

export type MeterOptions = {
  /** A connection to the measured database, as a user whose statements are not counted. */
  readonly admin: Sql;
  readonly postgresPid: number;
  /** Further processes, by name. */
  readonly pids: Readonly<Record<string, number>>;
  /** Metrics ports of the services that call a Vault. */
  readonly metricsPorts: readonly number[];
};

const TICK_US = 10_000;

export function createMeter({ admin, postgresPid, pids, metricsPorts }: MeterOptions): Meter {
  async function read(): Promise<Reading> {
    const [row] = await admin<{ wal: number; statements: number; fsyncs: number }[]>`
      select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint as wal,
        (select coalesce(sum(calls), 0) from pg_stat_statements s
          where s.userid <> current_user::regrole
            and s.dbid = (select oid from pg_database where datname = current_database()))::bigint as statements,
        (select coalesce(sum(fsyncs), 0) from pg_stat_io where object = 'wal')::bigint as fsyncs`;
    if (row === undefined) throw new Error('the counters of Postgres gave no row');
    const cpuUs = Object.fromEntries(
      await Promise.all(
        Object.entries(pids).map(
          async ([name, pid]) => [name, (await processTicks(pid))?.own ?? Number.NaN] as const,
        ),
      ),
    );
    const { wal, statements, fsyncs } = row;
    const vaultCalls = await Promise.all(
      metricsPorts.map((port) => readMetric(port, 'despatch_vault_requests_total')),
    );
    return {
      cpuUs: scale({ ...cpuUs, postgres: await familyTicks(postgresPid) }),
      walBytes: wal,
      statements,
      fsyncs,
      vaultCalls: vaultCalls.length === 0 ? Number.NaN : vaultCalls.reduce((sum, calls) => sum + calls, 0),
    };
  }

  return {
    async start() {
      const before = await read();
      return async () => {
        const after = await read();
        return (messages) => costOf(before, after, messages);
      };
    },
  };
}

function costOf(before: Reading, after: Reading, messages: number): Cost {
  const per = (a: number, b: number): number => (b - a) / messages;
  const cpuUs = Object.fromEntries(
    Object.entries(after.cpuUs).map(([name, us]) => [name, per(before.cpuUs[name] ?? Number.NaN, us)]),
  );
  return {
    cpuUs: Object.values(cpuUs).some(Number.isNaN) ? null : cpuUs,
    walBytes: per(before.walBytes, after.walBytes),
    statements: per(before.statements, after.statements),
    fsyncs: per(before.fsyncs, after.fsyncs),
    vaultCalls: per(before.vaultCalls, after.vaultCalls),
  };
}

function scale(ticks: Record<string, number>): Record<string, number> {
  return Object.fromEntries(Object.entries(ticks).map(([name, value]) => [name, value * TICK_US]));
}

type Ticks = { readonly parent: number; readonly own: number; readonly ended: number };

/** Returns user and system time of a process in hundredths of a second, and that of its children that have ended. */
async function processTicks(pid: number | string): Promise<Ticks | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  // The program's name stands in brackets and may contain any character.
  const fields = text
    .slice(text.lastIndexOf(')') + 2)
    .split(' ')
    .map(Number);
  const [parent, user, system, endedUser, endedSystem] = [1, 11, 12, 13, 14].map(
    (at) => fields[at] ?? Number.NaN,
  ) as [number, number, number, number, number];
  return { parent, own: user + system, ended: endedUser + endedSystem };
}

/** Returns the times of a server with a process per connection: its own, its children's, and those of children that ended. */
async function familyTicks(pid: number): Promise<number> {
  const head = await processTicks(pid);
  if (head === undefined) return Number.NaN;
  const names = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const all = await Promise.all(names.map(processTicks));
  const children = all.filter((one) => one?.parent === pid);
  return head.own + head.ended + children.reduce((sum, one) => sum + (one?.own ?? 0), 0);
}
