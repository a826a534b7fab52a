import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';

/**
 * Runs one transaction that reads a single tenant's rows, like `withTenant`, on a pool of its own. When `gone` fires, a query
 * that is still running is canceled in the database.
 * @param cancelSql another pool: the connections of this one may all be busy with queries to be canceled.
 * @throws whatever `read` throws.
 */
export async function readAsTenant<T>(
  { sql, cancelSql }: { readonly sql: Sql; readonly cancelSql: Sql },
  tenantId: TenantId,
  gone: AbortSignal,
  read: (tx: TransactionSql) => Promise<T>,
): Promise<T> {
  return (await sql.begin('read only', async (tx) => {
    let backend: number | undefined;
    let canceling: Promise<unknown> | undefined;
    const cancel = (): void => {
      if (backend !== undefined)
        canceling ??= cancelSql`select pg_cancel_backend(${backend})`.catch(() => {});
    };
    gone.addEventListener('abort', cancel);
    try {
      // Sent together with the first statement of `read`, without a round trip of its own. A plan made while a table was small
      // would keep scanning and sorting all of it when it has grown; every query here has an index. JIT is off, because compiling
      // a page's query takes longer than running it.
      const [, result] = await Promise.all([
        tx<{ backend: number }[]>`
          select set_config('app.tenant', ${tenantId}, true), set_config('enable_seqscan', 'off', true),
            set_config('jit', 'off', true), pg_backend_pid() as backend`
          .execute()
          .then(([row]) => {
            backend = row?.backend;
            if (gone.aborted) cancel();
          }),
        read(tx),
      ]);
      return result;
    } finally {
      gone.removeEventListener('abort', cancel);
      // A late cancellation must not hit the next transaction on this connection.
      await canceling;
    }
  })) as T;
}
