import type { Channel } from '#core/domain/channel.ts';
import type { TenantId } from '#core/domain/ids.ts';
import type { Route, RouteStep } from '#core/domain/route.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';

export type StoredRoute = Route & { readonly channel: Channel; readonly createdAt: Date };
export type NewRoute = Omit<Route, 'channel' | 'version'>;

type RouteRow = {
  readonly channel: Channel;
  readonly version: number;
  readonly strategy: Route['strategy'];
  readonly steps: readonly RouteStep[];
  readonly failover_on: Route['failoverOn'];
  readonly max_wait_ms: number | null;
  readonly receipt_timeout_ms: number | null;
  readonly created_at: Date;
};

/** Returns the routes in force; channels without a route are left out. */
export async function listRoutes(tenantId: TenantId, tx: TransactionSql): Promise<StoredRoute[]> {
  const rows = await tx<RouteRow[]>`
    select channel, version, strategy, steps, failover_on, max_wait_ms, receipt_timeout_ms, created_at from routes
    where tenant_id = ${tenantId} and replaced_at is null`;
  return rows.map(toRoute);
}

/** Returns the route in force. */
export async function findRoute(
  tenantId: TenantId,
  tx: TransactionSql,
  channel: Channel,
): Promise<StoredRoute | undefined> {
  const [row] = await tx<RouteRow[]>`
    select channel, version, strategy, steps, failover_on, max_wait_ms, receipt_timeout_ms, created_at from routes
    where tenant_id = ${tenantId} and channel = ${channel} and replaced_at is null`;
  return row && toRoute(row);
}

/** Puts a route in force in place of the current one. The caller has locked the tenant. */
export async function storeRoute(
  tenantId: TenantId,
  tx: TransactionSql,
  channel: Channel,
  { strategy, steps, failoverOn, maxWaitMs = null, receiptTimeoutMs = null }: NewRoute,
): Promise<StoredRoute> {
  await tx`
    update routes set replaced_at = now()
    where tenant_id = ${tenantId} and channel = ${channel} and replaced_at is null`;
  const [row] = await tx<RouteRow[]>`
    insert into routes (tenant_id, channel, version, strategy, steps, failover_on, max_wait_ms, receipt_timeout_ms)
    select ${tenantId}, ${channel}, coalesce(max(x.version), 0) + 1, ${strategy},
      ${JSON.stringify(steps)}::text::json, ${[...failoverOn]}::text[], ${maxWaitMs}::integer, ${receiptTimeoutMs}::integer
    from routes x where x.tenant_id = ${tenantId} and x.channel = ${channel}
    returning channel, version, strategy, steps, failover_on, max_wait_ms, receipt_timeout_ms, created_at`;
  if (row === undefined) throw new Error('a new route returned no row');
  return toRoute(row);
}

function toRoute({
  created_at: createdAt,
  failover_on: failoverOn,
  max_wait_ms: maxWaitMs,
  receipt_timeout_ms: receiptTimeoutMs,
  ...route
}: RouteRow): StoredRoute {
  return { ...route, failoverOn, maxWaitMs, receiptTimeoutMs, createdAt };
}
