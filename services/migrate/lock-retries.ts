import { isLockRefused } from '#core/domain/storage/database-fault.ts';
import { withDeadline, type Sql } from '#core/platform/postgres/postgres.ts';
import { retryPauseMs } from './retry-pause.ts';

/** A session that holds a lock the migration waits for. Fields that the migration's role may not see are null. */
export type LockHolder = {
  readonly pid: number;
  readonly application: string | null;
  readonly state: string | null;
  /** How long its transaction has been open. */
  readonly openSeconds: number | null;
};

export type LockWait = {
  /** The migration that waits, or the lock it waits for. */
  readonly name: string;
  /** Number of tries so far, from 1. */
  readonly tries: number;
  readonly waitedMs: number;
  readonly nextTryMs: number;
  readonly holders: readonly LockHolder[];
};

class LockWaitError extends Error {
  override readonly name = 'LockWaitError';
}

export type LockRetriesOptions = {
  /** A connection that looks at who holds locks while the migration's connection waits. */
  readonly observer: Sql;
  /** Process id of the backend that waits. */
  readonly pid: number;
  /** The advisory lock that `work` polls. */
  readonly advisoryLock: bigint;
  readonly lockTimeoutMs: number;
  readonly waitMsMax: number;
  readonly onWait: (wait: LockWait) => void;
};

const TELL_EVERY_MS = 2_000;
const LOOK_DEADLINE_MS = 2_000;

/** Creates a runner that waits briefly for locks, gives way to the requests queued behind it, and tries again. */
export function createLockRetries(options: LockRetriesOptions) {
  const { observer, pid, advisoryLock, lockTimeoutMs, waitMsMax, onWait } = options;

  /** @param isPolled whether the work polls the advisory lock, so that nothing shows that it waits. */
  async function look({ isPolled }: { readonly isPolled: boolean }): Promise<LockHolder[]> {
    const rows = observer<LockHolder[]>`
      select pid, application_name as application, state,
        extract(epoch from now() - xact_start)::float8 as "openSeconds"
      from pg_stat_activity
      where pid = any (pg_blocking_pids(${pid}) || array(
        -- pg_blocking_pids omits polled locks; pg_locks splits a bigint key into classid and objid.
        select l.pid from pg_locks l
        where ${isPolled} and l.locktype = 'advisory' and l.objsubid = 1 and l.granted and l.pid <> ${pid}
          and l.database = (select d.oid from pg_database d where d.datname = current_database())
          and l.classid::bigint = ${advisoryLock.toString()}::bigint >> 32
          and l.objid::bigint = ${advisoryLock.toString()}::bigint & 4294967295))
      order by xact_start`;
    // The holders only explain a wait; the migration does not depend on them.
    return withDeadline(rows, LOOK_DEADLINE_MS).then(
      (found) => [...found],
      () => [],
    );
  }

  async function attempt(work: () => Promise<boolean>): Promise<LockHolder[] | 'done'> {
    let looking: Promise<LockHolder[]> = Promise.resolve([]);
    const timer = setTimeout(() => {
      looking = look({ isPolled: false });
    }, lockTimeoutMs / 2);
    try {
      return (await work()) ? 'done' : await look({ isPolled: true });
    } catch (error) {
      if (!isLockRefused(error)) throw error;
      return await looking;
    } finally {
      clearTimeout(timer);
    }
  }

  return {
    /**
     * Runs `work` until it gets its locks.
     * @param pauseMsMax the longest pause between two tries.
     * @param work returns false if another session holds a lock, or throws the database's lock timeout; its changes are rolled
     *   back then.
     * @throws LockWaitError after `waitMsMax`; any other error of `work` at once.
     */
    async run(name: string, work: () => Promise<boolean>, pauseMsMax?: number): Promise<void> {
      const started = performance.now();
      let toldAt = -Infinity;
      for (let tries = 1; ; tries++) {
        const holders = await attempt(work);
        if (holders === 'done') return;
        const waitedMs = Math.round(performance.now() - started);
        // Requests proceed in the pauses, which are far longer than the tries.
        const nextTryMs = retryPauseMs(tries, pauseMsMax);
        if (waitedMs + nextTryMs > waitMsMax) {
          const who = holders
            .map((holder) => `${holder.pid} (${holder.application ?? 'unknown'})`)
            .join(', ');
          throw new LockWaitError(
            `${name}: no lock within ${waitedMs} ms and ${tries} tries; held by ${who === '' ? 'another run' : who}`,
          );
        }
        if (performance.now() - toldAt >= TELL_EVERY_MS) {
          onWait({ name, tries, waitedMs, nextTryMs, holders });
          toldAt = performance.now();
        }
        await new Promise((resolve) => setTimeout(resolve, nextTryMs));
      }
    },
  };
}
