import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { rolledBack } from './query/after-commit.ts';
import {
  DATABASE_DEADLINE_MS,
  transactionWithin,
  withDatabaseDeadline,
  withTenant,
} from './query/tenant-scope.ts';

/** An idempotency key in a comparable form. */
export type ScopedKey = {
  /** SHA-256 of owner, method, route and key. */
  readonly scope: Buffer;
  /** HMAC of the body in canonical form. */
  readonly fingerprint: Buffer;
};

/** The answer to a request with an idempotency key. */
export type Answered = {
  readonly status: number;
  readonly response: unknown;
  /** Lets a secret in the answer be derived again. */
  readonly nonce: Uint8Array | null;
};

/** An answer as it is stored, with the fingerprint of its request. */
export type StoredAnswer = Answered & { readonly fingerprint: Buffer };

/**
 * Runs a create once per idempotency key, in one transaction with its claim: a concurrent duplicate waits for the first request and
 * gets what it stored; a create that throws stores nothing. Without a key it just runs. Within `create`, `app.tenant` is set if there
 * is a tenant.
 * @throws any error of `create`.
 */
export function createOnce<Made>(
  sql: Sql,
  options: {
    readonly tenantId: TenantId | null;
    readonly key: ScopedKey | null;
    readonly create: (tx: TransactionSql) => Promise<Made>;
    readonly answerOf: (made: Made) => Answered;
  },
): Promise<{ readonly earlier: StoredAnswer } | { readonly made: Made }> {
  const { tenantId, key, create, answerOf } = options;
  const run = async (tx: TransactionSql) => {
    const earlier = key === null ? undefined : await claimed(tx, tenantId, key);
    if (earlier !== undefined) return { earlier };
    const made = await create(tx);
    if (key !== null) await store(tx, key, answerOf(made));
    return { made };
  };
  return tenantId === null
    ? transactionWithin(sql, run, DATABASE_DEADLINE_MS)
    : withTenant(sql, tenantId, run);
}

/**
 * Returns the answer that is stored under a key; undefined without one. Waits for a concurrent request with this key, and stores
 * nothing.
 */
export function findAnswer(
  sql: Sql,
  tenantId: TenantId | null,
  key: ScopedKey,
): Promise<StoredAnswer | undefined> {
  return withDatabaseDeadline(rolledBack(sql, (tx) => claimed(tx, tenantId, key)));
}

/** Claims a key for this transaction. Returns what is stored under it if another one has claimed it. */
async function claimed(
  tx: TransactionSql,
  tenantId: TenantId | null,
  { scope, fingerprint }: ScopedKey,
): Promise<StoredAnswer | undefined> {
  const [row] = await tx<StoredAnswer[]>`
    select fingerprint, status, response, nonce
    from claim_idempotency(array[${scope}::bytea], array[${tenantId}::uuid], array[${fingerprint}::bytea])`;
  return row;
}

async function store(
  tx: TransactionSql,
  { scope }: ScopedKey,
  { status, response, nonce }: Answered,
): Promise<void> {
  await tx`select store_idempotent_response(array[${scope}::bytea], array[${status}::smallint],
    array[${JSON.stringify(response)}::text::json], array[${nonce === null ? null : Buffer.from(nonce)}::bytea])`;
}
