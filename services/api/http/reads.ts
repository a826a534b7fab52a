import type { TenantId } from '#core/domain/ids.ts';
import { withDeadline, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { readAsTenant } from '#core/store/read-scope.ts';
import { abandoned } from './errors.ts';
import { createSharedSlots } from './shared-slots.ts';

/**
 * Reads rows of one tenant. Reads have connections of their own, of which one tenant has half at most: what they cost
 * keeps nobody else from sending or reading.
 * @param gone Fires when the client is gone: what the database still does for it is canceled.
 * @throws NoRoomError; DependencyError; whatever `read` throws.
 */
export type ReadTenant = <T>(
  tenantId: TenantId,
  gone: AbortSignal,
  read: (tx: TransactionSql) => Promise<T>,
) => Promise<T>;

export type ReadsOptions = {
  /** Its connections are for reads alone. */
  readonly sql: Sql;
  readonly connectionsMax: number;
  /** After which the database ends a statement of its own accord. */
  readonly timeoutMs: number;
  /** Connections for everything else. */
  readonly cancelSql: Sql;
};

/** Of one tenant, and of all. Each waits until a slot is free, and no longer than a read may take. */
const WAITING_PER_TENANT_MAX = 50;
const WAITING_MAX = 1_000;
/** The database is to be the first to end a read. */
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
    // The slot goes with the connection. Where the driver loses that, it is not lost for ever.
    void withDeadline(reading, 2 * (timeoutMs + MARGIN_MS)).then(leave, leave);
    try {
      return await withDeadline(reading, timeoutMs + MARGIN_MS);
    } catch (error) {
      throw gone.aborted ? abandoned() : error;
    }
  };
}
