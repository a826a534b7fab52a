import type { TenantId } from '#core/domain/storage/ids.ts';
import { withDeadline, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { readAsTenant } from '#core/store/query/read-scope.ts';
import { abandoned } from '../errors.ts';
import { createSharedSlots } from '../admission/shared-slots.ts';

/**
 * Runs a read of one tenant's rows. Reads have their own connections, and one tenant may use at most half of them, so
 * expensive reads block neither sends nor the reads of other tenants.
 * @param gone Aborts when the client disconnects: the running query is canceled.
 * @throws AppError `dependency_unavailable` without a slot; DependencyError; any error of `read`.
 */
export type ReadTenant = <T>(
  tenantId: TenantId,
  gone: AbortSignal,
  read: (tx: TransactionSql) => Promise<T>,
) => Promise<T>;

export type ReadsOptions = {
  /** Connections used only for reads. */
  readonly sql: Sql;
  readonly connectionsMax: number;
  /** The statement timeout that the database enforces. */
  readonly timeoutMs: number;
  /** The connections for everything else. */
  readonly cancelSql: Sql;
};

/** Per tenant, and in total. Each read waits for a slot, no longer than a read may take. */
const WAITING_PER_TENANT_MAX = 50;
const WAITING_MAX = 1_000;
/** The database's timeout should fire first. */
const MARGIN_MS = 1_000;

export function createReads({ sql, connectionsMax, timeoutMs, cancelSql }: ReadsOptions): ReadTenant {
  const slots = createSharedSlots({
    slots: connectionsMax,
    waitingPerOwnerMax: WAITING_PER_TENANT_MAX,
    waitingMax: WAITING_MAX,
    waitMsMax: timeoutMs,
  });
  return async (tenantId, gone, read) => {
    const leave = await slots.take(tenantId, gone);
    const reading = readAsTenant({ sql, cancelSql }, tenantId, gone, read);
    // The slot is released with its connection. The deadline releases it too if the driver loses the connection.
    void withDeadline(reading, 2 * (timeoutMs + MARGIN_MS)).then(leave, leave);
    try {
      return await withDeadline(reading, timeoutMs + MARGIN_MS);
    } catch (error) {
      throw gone.aborted ? abandoned() : error;
    }
  };
}
