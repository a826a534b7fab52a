import type { TenantId } from '#core/domain/ids.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';

/**
 * Runs one transaction that reads a single tenant's rows, as `withTenant` does, on connections of its own. What it still
 * asks of the database when `gone` fires is canceled there.
 * @param cancelSql Another pool: this one's connections may all be busy with what is to be canceled.
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
      // Sent together with the first statement of `read`: no round trip of its own. A plan that was made while a table was
      // small would go on to read all of it, and sort it, when it no longer is: an index has all that is asked for here.
      // Compiling what reads a page takes longer than reading it.
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
      // A cancellation must not meet the transaction that has the connection next.
      await canceling;
    }
  })) as T;
}
