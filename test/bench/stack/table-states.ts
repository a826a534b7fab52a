import type { Sql } from '#core/platform/postgres/postgres.ts';

/** Postgres' statistics of a table with all its partitions. */
export type TableState = {
  readonly name: string;
  readonly liveRows: number;
  readonly deadRows: number;
  /** Size with indexes. */
  readonly bytes: number;
  /** Number of autovacuum runs. */
  readonly vacuums: number;
};

/** Returns the tables of the service's schema that are not empty, the largest first. */
export async function tableStates(sql: Sql): Promise<TableState[]> {
  return await sql<TableState[]>`
    select coalesce(pg_partition_root(s.relid), s.relid)::regclass::text as name,
      sum(s.n_live_tup)::bigint as "liveRows", sum(s.n_dead_tup)::bigint as "deadRows",
      sum(pg_total_relation_size(s.relid))::bigint as bytes, sum(s.autovacuum_count)::bigint as vacuums
    from pg_stat_user_tables s where s.schemaname = 'despatch'
    group by 1 having sum(s.n_live_tup + s.n_dead_tup) > 0 order by bytes desc`;
}
