import type { Sql } from '#core/platform/postgres/postgres.ts';

const PURGED_AT_ONCE = 500;

/**
 * Deletes a tenant that the restore brought back, as the controller deletes one: rows, then the key, then its own row. Can
 * be interrupted and repeated at every step. Calls that were in flight at the time of the backup have ended long ago.
 */
export async function purgeTenant(
  sql: Sql,
  { id, uid }: { readonly id: string; readonly uid: string },
  destroyKey: () => Promise<void>,
): Promise<void> {
  const [tenant] = await sql<{ slug: string }[]>`
    update tenants set owner_uid = ${uid} where id = ${id} returning slug`;
  if (tenant === undefined) return;
  const { slug } = tenant;
  await sql`update live_messages set lease_until = '-infinity' where tenant_id = ${id} and status = 'sending'`;
  await sql`select begin_purge(${slug}, ${uid})`;
  // A purge does not end before apis have forgotten the tenant; none is running now.
  await sql`update tenants set updated_at = '-infinity' where id = ${id}`;
  for (;;) {
    const [row] = await sql<
      { outcome: string }[]
    >`select outcome from purge_some(${slug}, ${uid}, ${PURGED_AT_ONCE})`;
    if (row?.outcome === 'deleted') continue;
    if (row?.outcome !== 'empty') throw new Error(`the purge of ${id} does not go on: ${row?.outcome}`);
    await destroyKey();
    await sql`select end_purge(${slug}, ${uid})`;
    return;
  }
}
