import type { TenantId } from '#core/domain/ids.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { withTenant } from './tenant-scope.ts';

/** By how much the clock of a tenant's test messages is ahead, in milliseconds. */
export function readTestClock(sql: Sql, tenantId: TenantId): Promise<number> {
  return withTenant(sql, tenantId, async (tx) => {
    const [row] = await tx<{ ms: number }[]>`select test_clock_ms as ms from tenants where id = ${tenantId}`;
    return row?.ms ?? 0;
  });
}

export type AdvancedClock = {
  /** Milliseconds. */
  readonly aheadMs: number;
  /** Messages that wait for less by now. */
  readonly moved: number;
};

/**
 * @param most messages that may wait, as all of them are moved at once.
 * @returns undefined where more do; the transaction cannot go on then.
 */
export async function advanceTestClock(
  tx: TransactionSql,
  byMs: number,
  most: number,
): Promise<AdvancedClock | undefined> {
  try {
    const [row] = await tx<AdvancedClock[]>`
      select ahead_ms as "aheadMs", moved from advance_test_clock(${byMs}, ${most})`;
    return row;
  } catch (error) {
    if ((error as { code?: unknown }).code === 'DS003') return undefined;
    throw error;
  }
}
