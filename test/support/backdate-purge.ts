import type { Sql } from '#core/platform/postgres/postgres.ts';

/** Backdates the beginning of a tenant's purge, so that it may end at once: no api would have a cached copy of the tenant. */
export async function backdatePurge(admin: Sql, slug: string): Promise<void> {
  await admin`
    update despatch.tenants set updated_at = updated_at - interval '11 seconds' where slug = ${slug} and status = 'deleting'`;
}
