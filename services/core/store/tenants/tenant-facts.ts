import type { Channel } from '#core/domain/message/channel.ts';
import type { Limits } from '#core/domain/tenant/plan.ts';
import type { Route } from '#core/domain/routing/route.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { boundedQueries, type Bounded } from '../query/bounded-queries.ts';

/** What workers cache of tenants. @param bounded gives a query its deadline. */
export function tenantFactStore(sql: Sql, bounded: Bounded) {
  const { rowsOf } = boundedQueries(bounded);
  return {
    /** Returns accounts that are neither disabled nor deleted, the oldest first. */
    accountsOf: (tenantIds: readonly string[]) =>
      rowsOf<{ tenantId: string; id: string; channel: Channel; provider: string; status: string }>(
        sql`select tenant_id, id, channel, provider, status from accounts_of(${[...tenantIds]}::uuid[])`,
      ),
    /** Returns the routes that the tenants have set. */
    routesOf: (tenantIds: readonly string[]) =>
      rowsOf<Route & { tenantId: string }>(
        sql`select tenant_id, channel, version, strategy, steps, failover_on, max_wait_ms, receipt_timeout_ms
          from routes_of(${[...tenantIds]}::uuid[])`,
      ),
    /** `limits` is null for a tenant without a row of its own, which has the free plan. */
    tenantLimits: (ids: readonly string[]) =>
      rowsOf<{ tenantId: string; limits: Limits | null }>(
        sql`select tenant_id, limits from tenant_limits_of(${[...ids]}::uuid[])`,
      ),
  };
}
