import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import type { AcceptRow } from './acceptance.ts';
import { withTenant } from '../query/tenant-scope.ts';

/** Longer than the deadline of other transactions, because up to fifteen megabytes are sent. */
const STORE_DEADLINE_MS = 10_000;

/**
 * Stores a message's content in a table of its own, before the message is accepted.
 * @throws DependencyError: it is then unknown whether the content is stored; a content without a message is deleted later.
 */
export async function storeContent(sql: Sql, row: AcceptRow, content: string): Promise<void> {
  const { seq, purge_on, tenant_id } = row;
  await withTenant(
    sql,
    tenant_id as TenantId,
    (tx) => tx`select store_content(${seq}, ${purge_on}, ${content})`,
    STORE_DEADLINE_MS,
  );
}

/** Deletes the contents that were stored for messages of a tenant that were then refused. */
export async function forgetContents(sql: Sql, tenantId: TenantId, seqs: readonly number[]): Promise<void> {
  await withTenant(
    sql,
    tenantId,
    (tx) => tx`select forget_contents(${[...seqs]}::bigint[])`,
    STORE_DEADLINE_MS,
  );
}
