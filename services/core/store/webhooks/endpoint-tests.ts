import type { TenantId } from '#core/domain/storage/ids.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';

/** Maximum number of test calls of one endpoint that may wait at once. */
export const WAITING_TESTS_MAX = 5;

/**
 * Requests a test call to an endpoint; the first worker that claims it makes the call.
 * @returns its id; undefined if as many are waiting as permitted.
 */
export async function askEndpointTest(
  tenantId: TenantId,
  tx: TransactionSql,
  endpointId: string,
): Promise<string | undefined> {
  const [row] = await tx<{ id: string }[]>`
    insert into endpoint_tests (endpoint_id, tenant_id)
    select ${endpointId}, ${tenantId}
    where (select count(*) from endpoint_tests t where t.tenant_id = ${tenantId} and t.endpoint_id = ${endpointId}
      and t.asked_at > clock_timestamp() - interval '30 seconds') < ${WAITING_TESTS_MAX}
    returning id`;
  return row?.id;
}

/** Returns the exchange as the worker stored it; undefined while there is none, null if its endpoint was deleted, and it too. */
export async function findEndpointTest(tenantId: TenantId, tx: TransactionSql, id: string): Promise<unknown> {
  const [row] = await tx<{ result: unknown }[]>`
    select result from endpoint_tests where tenant_id = ${tenantId} and id = ${id}`;
  return row === undefined ? null : (row.result ?? undefined);
}

export async function dropEndpointTest(tenantId: TenantId, tx: TransactionSql, id: string): Promise<void> {
  await tx`delete from endpoint_tests where tenant_id = ${tenantId} and id = ${id}`;
}
