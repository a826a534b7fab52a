import type { TenantId } from '#core/domain/storage/ids.ts';
import { asJson, withDeadline, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { toAcceptBatch } from './accept-batch.ts';
import {
  verdictsOf,
  type AcceptOptions,
  type AcceptRow,
  type Verdict,
  type VerdictRow,
} from './acceptance.ts';
import { rolledBack } from '../query/after-commit.ts';
import { DATABASE_DEADLINE_MS, withDatabaseDeadline } from '../query/tenant-scope.ts';

/** The messages of one batch request. */
export type BatchAcceptance = {
  /** All of one tenant and key. */
  readonly rows: readonly AcceptRow[];
  /** Whether all messages must be accepted or none. */
  readonly strict: boolean;
  /** The request's idempotency key; null without one. */
  readonly own: OwnKey | null;
};

export type OwnKey = {
  readonly tenant_id: string;
  /** Hex. */
  readonly scope: string;
  readonly fingerprint: string;
  /** Stored beside the verdicts. */
  readonly draft: unknown;
};

export type BatchVerdicts =
  /** One for each row, in order. */
  | { readonly kind: 'settled'; readonly verdicts: readonly Verdict[] }
  /** The stored answer to the first request. */
  | { readonly kind: 'replayed'; readonly stored: StoredBatch }
  | { readonly kind: 'mismatch' };

export type StoredBatch = { readonly draft: unknown; readonly verdicts: readonly Verdict[] };

/**
 * Settles and stores the messages of one request in one statement and one commit. If none is accepted, or not all of a strict
 * batch, nothing is stored.
 * @throws DependencyError, and errors that `isPlaceRefused` recognizes, like `acceptMessages`.
 */
export async function acceptWholeBatch(
  sql: Sql | TransactionSql,
  { rows, strict, own }: BatchAcceptance,
  sweepAfterMs: number,
  { deadlineMs = DATABASE_DEADLINE_MS, warned = () => {} }: AcceptOptions = {},
): Promise<BatchVerdicts> {
  const { callers, messages, keys } = toAcceptBatch(rows);
  // At most so many: the database leaves out the replays among them.
  const together = strict ? callers.map((caller) => ({ ...caller, calls_together: rows.length })) : callers;
  const settled = await withDeadline(
    sql<VerdictRow[]>`select ord, verdict, response, retry_after as "retryAfter", remaining
      from accept_batch(${asJson(sql, together)}, ${asJson(sql, messages)},
        ${keys.length === 0 ? null : asJson(sql, keys)}, ${own === null ? null : asJson(sql, own)}, ${strict},
        ${sweepAfterMs}) order by ord`,
    deadlineMs,
  );
  const [first] = settled;
  if (first?.ord === 0) {
    if (first.verdict === 'mismatch') return { kind: 'mismatch' };
    return { kind: 'replayed', stored: first.response as StoredBatch };
  }
  return { kind: 'settled', verdicts: verdictsOf(settled, warned) };
}

/**
 * Does what `acceptWholeBatch` does with these messages, and rolls it back.
 * @throws the same errors.
 */
export async function tryBatch(sql: Sql, rows: readonly AcceptRow[], sweepAfterMs: number): Promise<void> {
  await withDatabaseDeadline(
    rolledBack(sql, (tx) => acceptWholeBatch(tx, { rows, strict: false, own: null }, sweepAfterMs)),
  );
}

type Key = { readonly scope: Buffer; readonly fingerprint: Buffer };
type AnswerRow = { readonly scope: Buffer; readonly fingerprint: Buffer; readonly response: unknown };

/** What was stored under an idempotency key. */
export type EarlierAnswer = { readonly isSame: boolean; readonly response: unknown };

/**
 * Returns the stored answers for the keys of a tenant's messages; undefined for a key without one. Waits for concurrent requests
 * with these keys, and stores nothing.
 */
export async function findEarlierAnswers(
  sql: Sql,
  tenantId: TenantId,
  keys: readonly Key[],
): Promise<(EarlierAnswer | undefined)[]> {
  // Claimed in the order in which other transactions claim them, to avoid deadlocks; a key may occur more than once.
  const distinct = [...new Map(keys.map((key) => [key.scope.toString('hex'), key])).entries()]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([, key]) => key);
  const scopes = distinct.map(({ scope }) => scope.toString('hex'));
  const fingerprints = distinct.map(({ fingerprint }) => fingerprint.toString('hex'));
  const tenants = distinct.map(() => tenantId);
  const found = await withDatabaseDeadline(
    rolledBack(
      sql,
      (tx) => tx<AnswerRow[]>`select claimed.scope, claimed.fingerprint, claimed.response
        from (
          select array_agg(decode(k.scope, 'hex') order by k.nth) as scopes, array_agg(k.tenant order by k.nth) as tenants,
            array_agg(decode(k.fingerprint, 'hex') order by k.nth) as fingerprints
          from unnest(${scopes}::text[], ${tenants}::uuid[], ${fingerprints}::text[])
            with ordinality as k (scope, tenant, fingerprint, nth)
        ) k, claim_idempotency(k.scopes, k.tenants, k.fingerprints) claimed`,
    ),
  );
  const byScope = new Map(found.map((row) => [row.scope.toString('hex'), row]));
  return keys.map(({ scope, fingerprint }) => {
    const row = byScope.get(scope.toString('hex'));
    return row && { isSame: row.fingerprint.equals(fingerprint), response: row.response };
  });
}
