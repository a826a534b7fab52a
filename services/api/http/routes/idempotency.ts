import { createHmac, hash, type KeyObject } from 'node:crypto';
import { z } from 'zod';
import { AppError, validationFailed } from '#core/domain/fault/app-error.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Warnings } from '#core/domain/fault/warning.ts';
import { type Json, type Sql, type TransactionSql } from '#core/platform/postgres/postgres.ts';
import { DATABASE_DEADLINE_MS, transactionWithin } from '#core/store/tenant-scope.ts';
import { withWarnings } from './request-warnings.ts';

/** A request's idempotency key in a comparable form. */
export type IdempotencyClaim = {
  /** SHA-256 of owner, method, route and key. */
  readonly scope: Buffer;
  /** HMAC of the body in canonical form. */
  readonly fingerprint: Buffer;
  /** Warnings of the answer: stored with it, so that a replay returns the same ones. */
  readonly warnings: Warnings;
};

/** As sent in header or body: bare or quoted, not only blanks. Surrounding whitespace is not part of it. */
export const IDEMPOTENCY_KEY =
  /^ *(?:[!#-~](?:[ -~]{0,253}[!-~])?|"(?:[ -~]{0,253}[!#-~])?|"[ -~]{1,255}") *$/;
const IDEMPOTENCY_KEY_RULE = 'Must be 1 to 255 printable ASCII characters';

/** The field of a body that does the same as the header. */
export const idempotencyKeyField = z
  .string()
  .regex(IDEMPOTENCY_KEY, IDEMPOTENCY_KEY_RULE)
  .optional()
  .describe(
    'Makes the call repeatable; used instead of the header `Idempotency-Key`. 1 to 255 printable ASCII characters, bare or in double quotes.',
  );

/**
 * Returns the idempotency key of a request, from header or body, bare or quoted.
 * @throws AppError when it is malformed, or when both are present and differ.
 */
export function idempotencyKeyOf(header: unknown, field: unknown): string | null {
  const fromHeader = header === undefined ? null : readKey(header, 'Idempotency-Key');
  const fromField = field === undefined || field === null ? null : readKey(field, 'idempotencyKey');
  if (fromHeader !== null && fromField !== null && fromHeader !== fromField) {
    throw new AppError('idempotency_key_conflict');
  }
  return fromHeader ?? fromField;
}

function readKey(value: unknown, field: string): string {
  if (typeof value !== 'string' || !IDEMPOTENCY_KEY.test(value)) {
    throw validationFailed({ field, rule: 'format', message: IDEMPOTENCY_KEY_RULE });
  }
  return unquote(value.trim());
}

function unquote(text: string): string {
  return text.length >= 2 && text.startsWith('"') && text.endsWith('"') ? text.slice(1, -1) : text;
}

/** @param owner The tenant's id, or the user's when there is no tenant. */
export function idempotencyClaim(
  subkey: KeyObject,
  request: {
    readonly owner: string;
    readonly method: string;
    readonly route: string;
    readonly key: string;
    /** Path parameters: the same key for another object is a mismatch. */
    readonly params: unknown;
    readonly body: unknown;
    readonly warnings: Warnings;
  },
): IdempotencyClaim {
  const { owner, method, route, key, params, body, warnings } = request;
  return {
    warnings,
    scope: hash('sha256', `${owner}|${method}|${route}|${key}`, 'buffer'),
    fingerprint: createHmac('sha256', subkey)
      .update(canonicalJson([params, body]))
      .digest(),
  };
}

/** Serializes to JSON with sorted names, so that equal values have equal texts. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_name, inner: unknown) =>
    typeof inner === 'object' && inner !== null && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}

/** The result of a create. A replay starts from `stored`, which is `body` without a secret that is shown only once. */
export type Created<Body> = {
  readonly status: number;
  readonly body: Body;
  readonly stored?: Json;
  /** Lets `restore` derive the secret again. */
  readonly nonce?: Uint8Array;
};

export type CreateResult<Body> = {
  readonly status: number;
  readonly body: Body;
  readonly replayed: boolean;
};

/**
 * Runs a create once per idempotency key, in one transaction with its claim: a concurrent duplicate waits for the first
 * request and gets its answer; a create that throws stores nothing. Without a claim it just runs. Within `create`,
 * `app.tenant` is set if there is a tenant.
 * @param restore Rebuilds the original body from what was stored; needed only when the body contains a secret.
 * @throws AppError `idempotency_mismatch`; any error of `create`.
 */
export function createOnce<Body>(
  sql: Sql,
  options: {
    readonly tenantId: TenantId | null;
    readonly claim: IdempotencyClaim | null;
    readonly create: (tx: TransactionSql) => Promise<Created<Body>>;
    readonly restore?: (stored: Body, nonce: Uint8Array) => Body;
  },
): Promise<CreateResult<Body>> {
  const { tenantId, claim, create, restore } = options;
  return transactionWithin(
    sql,
    async (tx): Promise<CreateResult<Body>> => {
      if (tenantId !== null) {
        // Disables sequential scans, as `withTenant` does.
        await tx`select set_config('app.tenant', ${tenantId}, true), set_config('enable_seqscan', 'off', true)`;
      }
      const earlier = claim === null ? undefined : await claimed(tx, tenantId, claim);
      if (earlier !== undefined) {
        const { response, nonce } = earlier;
        const body = restore === undefined || nonce === null ? response : restore(response as Body, nonce);
        return { status: earlier.status, body: body as Body, replayed: true };
      }
      const created = await create(tx);
      if (claim !== null) await store(tx, claim, created);
      return { status: created.status, body: created.body, replayed: false };
    },
    DATABASE_DEADLINE_MS,
  );
}

type ClaimRow = { fingerprint: Buffer; status: number; response: unknown; nonce: Buffer | null };

async function claimed(
  tx: TransactionSql,
  tenantId: TenantId | null,
  { scope, fingerprint }: IdempotencyClaim,
): Promise<ClaimRow | undefined> {
  const [row] = await tx<ClaimRow[]>`
    select fingerprint, status, response, nonce
    from claim_idempotency(array[${scope}::bytea], array[${tenantId}::uuid], array[${fingerprint}::bytea])`;
  if (row !== undefined && !row.fingerprint.equals(fingerprint)) throw new AppError('idempotency_mismatch');
  return row;
}

async function store<Body>(
  tx: TransactionSql,
  { scope, warnings }: IdempotencyClaim,
  created: Created<Body>,
): Promise<void> {
  const response = JSON.stringify(withWarnings(created.stored ?? (created.body as Json), warnings));
  const nonce = created.nonce === undefined ? null : Buffer.from(created.nonce);
  await tx`select store_idempotent_response(array[${scope}::bytea], array[${created.status}::smallint],
    array[${response}::text::json], array[${nonce}::bytea])`;
}
