import { DAY_MS } from '#core/domain/text/duration.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { placeMessages } from './layout.ts';
import type { BenchTenant } from './seed.ts';

const AT_ONCE = 10_000;
/** Time from now until the first scheduled message is due; longer than any measurement, so that none becomes due during one. */
const SCHEDULED_AHEAD_DAYS = 7;
const SCHEDULED_DAYS = 20;
const ROUTE_STEPS = 20;

/** Stores messages that are scheduled some weeks ahead, with tenants in turn. */
export async function plantScheduled(
  sql: Sql,
  tenants: readonly BenchTenant[],
  count: number,
): Promise<void> {
  for (let from = 0; from < count; from += AT_ONCE) {
    const times = Array.from(
      { length: Math.min(AT_ONCE, count - from) },
      (_, i) => Date.now() + (SCHEDULED_AHEAD_DAYS + (SCHEDULED_DAYS * (from + i)) / count) * DAY_MS,
    );
    const placed = await placeMessages(sql, times);
    const rows = placed.map((place, i) => ({
      ...place,
      at: new Date(times[i] as number).toISOString(),
      tenant: tenants[(from + i) % tenants.length] as BenchTenant,
    }));
    await sql`
      with fresh as materialized (
        select * from unnest(${rows.map(({ seq }) => seq)}::bigint[], ${rows.map(({ purgeOn }) => purgeOn)}::date[],
          ${rows.map(({ id }) => id)}::uuid[], ${rows.map(({ at }) => at)}::timestamptz[],
          ${rows.map(({ tenant }) => tenant.tenantId)}::uuid[], ${rows.map(({ tenant }) => tenant.accountId)}::uuid[])
          as f (seq, purge_on, id, at, tenant, account)
      ), stored as (
        insert into messages (seq, purge_on, id, tenant_id, channel, recipient, address, content, category, priority, test,
          segments, encoding, delivery_guarantee, content_retention, tags, scheduled_at, enqueued_at)
        select seq, purge_on, id, tenant, 'sms', '+15550000000', '+15550000000',
          json_build_object('body', 'Your parcel is on its way and will reach you between nine and noon.'), 'marketing', 1,
          false, 1, 'GSM-7', 'at_least_once', 'retain', '["campaign"]', at, now()
        from fresh order by seq
      ), live as (
        -- As accept stores them: three above their own priority.
        insert into live_messages (seq, purge_on, tenant_id, account_id, due_at, status, priority, channel, test, pinned,
          marketing, segments, next_attempt_at, expires_at, updated_at)
        select seq, purge_on, tenant, account, at, 'scheduled', 4, 'sms', false, false, true, 1, at, at + interval '1 day', now()
        from fresh order by seq
      )
      update tenant_usage u set accepted = u.accepted + f.n, scheduled = u.scheduled + f.n
      from (select tenant, count(*) as n from fresh group by 1) f where u.tenant_id = f.tenant`;
  }
  await sql`vacuum (analyze) messages, live_messages, tenant_usage`;
}

/** Stores suppressions of the tenants in turn, of recipients that the load never sends to. */
export async function plantSuppressions(
  sql: Sql,
  tenants: readonly BenchTenant[],
  count: number,
): Promise<void> {
  const tenantIds = tenants.map(({ tenantId }) => tenantId);
  // They appear as an import of long ago, whose events have been delivered and deleted.
  await sql.begin(async (tx) => {
    await tx`set local session_replication_role = replica`;
    await tx`
      insert into suppressions (tenant_id, channel, address_key, address, reason, scope, source)
      select (${tenantIds}::uuid[])[1 + i % ${tenantIds.length}], 'sms', decode(md5(i::text), 'hex'), '+1666' || i,
        'opt_out', 'all', 'import'
      from generate_series(1, ${count}::integer) i`;
  });
  await sql`vacuum (analyze) suppressions`;
}

/** Stores a route of 20 steps for each tenant. The first step is the account that sends. */
export async function plantRoutes(sql: Sql, tenants: readonly BenchTenant[]): Promise<void> {
  const [tenantIds, accountIds] = [
    tenants.map(({ tenantId }) => tenantId),
    tenants.map(({ accountId }) => accountId),
  ];
  await sql`
    insert into provider_accounts (id, tenant_id, provider, channel, label, status, config_public, ciphertext)
    select gen_random_uuid(), p.tenant_id, p.provider, p.channel, 'step ' || i, p.status, p.config_public, p.ciphertext
    from provider_accounts p, generate_series(2, ${ROUTE_STEPS}::integer) i where p.id = any (${accountIds}::uuid[])`;
  await sql`
    insert into routes (tenant_id, channel, version, strategy, steps, failover_on)
    select p.tenant_id, 'sms', 1, 'priority', json_agg(json_build_object('accountId', p.id, 'weight', 1) order by p.seq),
      '{provider_unavailable,auth_or_config}'
    from provider_accounts p where p.tenant_id = any (${tenantIds}::uuid[]) group by p.tenant_id`;
  await sql`vacuum (analyze) provider_accounts, routes`;
}
