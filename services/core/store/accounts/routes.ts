import type { Channel } from '#core/domain/message/channel.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Route } from '#core/domain/routing/route.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from '../query/camel-rows.ts';

export type StoredRoute = Route & { readonly channel: Channel; readonly createdAt: Date };
export type NewRoute = Omit<Route, 'channel' | 'version'>;

/** Returns the routes in force; channels without a route are left out. */
export async function listRoutes(tenantId: TenantId, tx: TransactionSql): Promise<StoredRoute[]> {
  return camelRows<StoredRoute>(
    await tx`
      select ${columns(tx)} from routes
      where tenant_id = ${tenantId} and replaced_at is null`.values(),
  );
}

/** Returns the route in force. */
export async function findRoute(
  tenantId: TenantId,
  tx: TransactionSql,
  channel: Channel,
): Promise<StoredRoute | undefined> {
  const [row] = camelRows<StoredRoute>(
    await tx`
      select ${columns(tx)} from routes
      where tenant_id = ${tenantId} and channel = ${channel} and replaced_at is null`.values(),
  );
  return row;
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
  const [row] = camelRows<StoredRoute>(
    await tx`
      insert into routes (tenant_id, channel, version, strategy, steps, failover_on, max_wait_ms, receipt_timeout_ms)
      select ${tenantId}, ${channel}, coalesce(max(x.version), 0) + 1, ${strategy},
        ${JSON.stringify(steps)}::text::json, ${[...failoverOn]}::text[], ${maxWaitMs}::integer, ${receiptTimeoutMs}::integer
      from routes x where x.tenant_id = ${tenantId} and x.channel = ${channel}
      returning ${columns(tx)}`.values(),
  );
  if (row === undefined) throw new Error('a new route returned no row');
  return row;
}

function columns(tx: TransactionSql) {
  return tx`channel, version, strategy, steps, failover_on, max_wait_ms, receipt_timeout_ms, created_at`;
}
