import type { Sql } from '#core/platform/postgres/postgres.ts';

/** Counts the rows that contain an id in any column, by table; tables without such rows are omitted. */
export async function rowsNaming(sql: Sql, id: string): Promise<Record<string, number>> {
  const tables = await sql<{ name: string }[]>`
    select c.relname as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'despatch' and c.relkind in ('r', 'p') and not c.relispartition order by 1`;
  const found: Record<string, number> = {};
  for (const { name } of tables) {
    const [row] = await sql<{ n: number }[]>`
      select count(*)::int as n from ${sql(name)} t where t::text like ${`%${id}%`}`;
    if (row !== undefined && row.n > 0) found[name] = row.n;
  }
  return found;
}
