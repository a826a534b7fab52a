import type { TenantId } from '#core/domain/storage/ids.ts';
import { DependencyError } from '#core/domain/fault/dependency-error.ts';
import { withDeadline, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { inTransaction } from './after-commit.ts';

/** Deadline of a transaction of the api, in milliseconds. */
export const DATABASE_DEADLINE_MS = 5_000;

/** Gives a statement of the api the deadline of a transaction. @throws DependencyError; any error of `work`. */
export function withDatabaseDeadline<T>(work: Promise<T>): Promise<T> {
  return withDeadline(work, DATABASE_DEADLINE_MS);
}

/**
 * Runs one transaction that sees a single tenant's rows. Row-level security hides all others, even from a statement that does not
 * filter by tenant.
 * @throws DependencyError; whatever `work` throws, after a rollback.
 */
export function withTenant<T>(
  sql: Sql,
  tenantId: TenantId,
  work: (tx: TransactionSql) => Promise<T>,
  deadlineMs: number = DATABASE_DEADLINE_MS,
): Promise<T> {
  return transactionWithin(
    sql,
    async (tx) => {
      // Sent together with the first statement of `work`, without a round trip of its own. A plan made while a table was small
      // would keep scanning all of it when it has grown; every query here has an index.
      const [, result] = await Promise.all([
        tx`select set_config('app.tenant', ${tenantId}, true), set_config('enable_seqscan', 'off', true)`.execute(),
        work(tx),
      ]);
      return result;
    },
    deadlineMs,
  );
}

/**
 * Runs one transaction with a deadline. A transaction that is late and not committed yet never will be, because its caller was
 * told of a failure. A commit that is under way at the deadline may still take place.
 * @throws DependencyError; whatever `work` throws, after a rollback.
 */
export function transactionWithin<T>(
  sql: Sql,
  work: (tx: TransactionSql) => Promise<T>,
  deadlineMs: number,
): Promise<T> {
  const deadline = performance.now() + deadlineMs;
  return withDeadline(
    inTransaction(sql, async (tx) => {
      const result = await work(tx);
      if (performance.now() < deadline) return result;
      throw new DependencyError('postgres', 'deadline', `the transaction took more than ${deadlineMs} ms`);
    }),
    deadlineMs,
  );
}
