import type { Sql } from '#core/platform/postgres/postgres.ts';

/**
 * Returns one row per session of the connection's database that waits for a lock. Ask on a connection outside the transaction that
 * holds the lock: within one, `pg_stat_activity` is a snapshot.
 * @param part what the waiting statement contains; default: anything.
 */
export function lockWaits(admin: Sql, part = ''): Promise<readonly { readonly query: string }[]> {
  return admin<{ query: string }[]>`select query from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock' and query like ${`%${part}%`}`;
}
