import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from '../query/camel-rows.ts';
import { withTenant } from '../query/tenant-scope.ts';

/** Returns by how many milliseconds the clock of a tenant's test messages is ahead. */
export function readTestClock(sql: Sql, tenantId: TenantId): Promise<number> {
  return withTenant(sql, tenantId, async (tx) => {
    const [row] = await tx<{ ms: number }[]>`select test_clock_ms as ms from tenants where id = ${tenantId}`;
    return row?.ms ?? 0;
  });
}

export type AdvancedClock = {
  /** Milliseconds. */
  readonly aheadMs: number;
  /** Number of messages whose wait was shortened. */
  readonly moved: number;
};

/**
 * Advances the test clock.
 * @param most maximum number of waiting messages, because all of them are moved at once.
 * @returns undefined if more wait; the transaction cannot continue then.
 */
export async function advanceTestClock(
  tx: TransactionSql,
  byMs: number,
  most: number,
): Promise<AdvancedClock | undefined> {
  try {
    const [row] = camelRows<AdvancedClock>(
      await tx`select ahead_ms, moved from advance_test_clock(${byMs}, ${most})`.values(),
    );
    return row;
  } catch (error) {
    if ((error as { code?: unknown }).code === 'DS003') return undefined;
    throw error;
  }
}
