import { createHmac, hash, type KeyObject } from 'node:crypto';
import { z } from 'zod';
import { AppError, validationFailed } from '#core/domain/fault/app-error.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { Warnings } from '#core/domain/fault/warning.ts';
import type { Json, Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { createOnce as storeOnce, type ScopedKey, type StoredAnswer } from '#core/store/idempotency.ts';
import { withWarnings } from './request-warnings.ts';

/** A request's idempotency key in a comparable form. */
export type IdempotencyClaim = ScopedKey & {
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
 * Runs a create once per idempotency key and answers a repeated request with the first answer.
 * @param restore Rebuilds the original body from what was stored; needed only when the body contains a secret.
 * @throws AppError `idempotency_mismatch`; any error of `create`.
 */
export async function createOnce<Body>(
  sql: Sql,
  options: {
    readonly tenantId: TenantId | null;
    readonly claim: IdempotencyClaim | null;
    readonly create: (tx: TransactionSql) => Promise<Created<Body>>;
    readonly restore?: (stored: Body, nonce: Uint8Array) => Body;
  },
): Promise<CreateResult<Body>> {
  const { tenantId, claim, create, restore } = options;
  const result = await storeOnce(sql, {
    tenantId,
    key: claim,
    create,
    answerOf: ({ status, body, stored, nonce = null }) => {
      const response = stored ?? (body as Json);
      return { status, response: claim === null ? response : withWarnings(response, claim.warnings), nonce };
    },
  });
  if ('earlier' in result) return replayOf(result.earlier, claim, restore);
  return { status: result.made.status, body: result.made.body, replayed: false };
}

/**
 * Returns a stored answer as a replay.
 * @throws AppError `idempotency_mismatch` if it is the answer to another request.
 */
export function replayOf<Body>(
  { fingerprint, status, response, nonce }: StoredAnswer,
  claim: IdempotencyClaim | null,
  restore?: (stored: Body, nonce: Uint8Array) => Body,
): CreateResult<Body> {
  if (claim !== null && !fingerprint.equals(claim.fingerprint)) throw new AppError('idempotency_mismatch');
  const body = response as Body;
  return {
    status,
    body: restore === undefined || nonce === null ? body : restore(body, nonce),
    replayed: true,
  };
}
