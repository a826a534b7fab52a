import type { ApiKeyId, TenantId } from '#core/domain/storage/ids.ts';
import type { Scope } from '#core/domain/tenant/role.ts';
import type { KeyMode } from '#core/domain/tenant/service-key.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from '../query/camel-rows.ts';
import { scannedOf, type ScanRange, type Scanned, type ScannedRow } from '../query/scan.ts';

export const API_KEY_STATUSES = ['active', 'rotating', 'expired', 'revoked'] as const;
export type ApiKeyStatus = (typeof API_KEY_STATUSES)[number];

/** Everything that the api may know of a key: all but the hash of its secret. */
export type ApiKey = {
  readonly id: ApiKeyId;
  /** The part of the key that identifies it. */
  readonly keyId: string;
  readonly name: string;
  readonly mode: KeyMode;
  readonly scopes: readonly Scope[];
  readonly rateLimitRpm: number | null;
  readonly status: ApiKeyStatus;
  /** While `rotating`: until when the former secret is valid too. */
  readonly graceUntil: Date | null;
  readonly expiresAt: Date | null;
  readonly createdAt: Date;
  readonly lastUsedAt: Date | null;
};

export type NewApiKey = {
  readonly id: ApiKeyId;
  readonly keyId: string;
  readonly name: string;
  readonly mode: KeyMode;
  readonly scopes: readonly Scope[];
  readonly rateLimitRpm: number | null;
  readonly expiresAt: Date | null;
  readonly secretHash: Uint8Array;
};

export async function insertApiKey(tenantId: TenantId, tx: TransactionSql, key: NewApiKey): Promise<ApiKey> {
  const [row] = camelRows<ApiKey>(
    await tx`
      insert into api_keys (id, tenant_id, key_id, name, mode, scopes, rate_limit_rpm, expires_at, secret_hash)
      values (${key.id}, ${tenantId}, ${key.keyId}, ${key.name}, ${key.mode}, ${[...key.scopes]}, ${key.rateLimitRpm},
        ${key.expiresAt}, ${Buffer.from(key.secretHash)})
      returning ${columns(tx)}`.values(),
  );
  if (row === undefined) throw new Error('a new key returned no row');
  return row;
}

export async function findApiKey(
  tenantId: TenantId,
  tx: TransactionSql,
  id: ApiKeyId,
): Promise<ApiKey | undefined> {
  const [row] = camelRows<ApiKey>(
    await tx`
      select ${columns(tx)} from api_keys where tenant_id = ${tenantId} and id = ${id}`.values(),
  );
  return row;
}

export type ApiKeyFilter = {
  readonly mode?: KeyMode | undefined;
  readonly status?: ApiKeyStatus | undefined;
};

export type ListedApiKey = ApiKey & { readonly seq: number };

/** Reads a stretch of keys, newest first, including revoked and expired ones, of which there may be any number. */
export async function scanApiKeys(
  tenantId: TenantId,
  tx: TransactionSql,
  { mode, status }: ApiKeyFilter,
  { before, rows, most }: ScanRange<number>,
): Promise<Scanned<ListedApiKey, number>> {
  const scanned = camelRows<ScannedRow<ListedApiKey>>(
    await tx`
      with scanned as materialized (
        select seq, id, key_id, name, mode, scopes, rate_limit_rpm, grace_until, expires_at, revoked_at, created_at
        from api_keys where tenant_id = ${tenantId} ${before === undefined ? tx`` : tx`and seq < ${before}`}
        order by seq desc limit ${rows}
      ), found as (
        select seq, ${columns(tx)} from scanned as api_keys
        where true ${mode === undefined ? tx`` : tx`and mode = ${mode}`}
          ${status === undefined ? tx`` : tx`and ${statusOf(tx)} = ${status}`}
        order by seq desc limit ${most}
      ), reach as (
        select count(*)::integer as scanned, min(r.seq) as end_seq from scanned r
      )
      select r.scanned, r.end_seq, f.* from reach r left join found f on true order by f.seq desc`.values(),
  );
  return scannedOf(scanned);
}

/** Counts the keys that can still be used, without reading the others. */
export async function countApiKeys(tenantId: TenantId, tx: TransactionSql): Promise<number> {
  const [row] = await tx<{ n: number }[]>`
    select (
      (select count(*) from api_keys where tenant_id = ${tenantId} and revoked_at is null and expires_at is null)
      + (select count(*) from api_keys where tenant_id = ${tenantId} and revoked_at is null and expires_at > now())
    )::integer as n`;
  return row?.n ?? 0;
}

export type ApiKeyChange = {
  readonly name?: string | undefined;
  readonly scopes?: readonly Scope[] | undefined;
  readonly rateLimitRpm?: number | null | undefined;
  readonly expiresAt?: Date | null | undefined;
};

export async function updateApiKey(
  tenantId: TenantId,
  tx: TransactionSql,
  id: ApiKeyId,
  change: ApiKeyChange,
): Promise<void> {
  const { name, scopes, rateLimitRpm, expiresAt } = change;
  await tx`
    update api_keys set id = id
      ${name === undefined ? tx`` : tx`, name = ${name}`}
      ${scopes === undefined ? tx`` : tx`, scopes = ${[...scopes]}`}
      ${rateLimitRpm === undefined ? tx`` : tx`, rate_limit_rpm = ${rateLimitRpm}`}
      ${expiresAt === undefined ? tx`` : tx`, expires_at = ${expiresAt}`}
    where tenant_id = ${tenantId} and id = ${id} and revoked_at is null`;
}

/** Stores a new secret. The former one is valid until `graceUntil`, or ends at once if that is null. */
export async function replaceApiKeySecret(
  tenantId: TenantId,
  tx: TransactionSql,
  id: ApiKeyId,
  secretHash: Uint8Array,
  graceUntil: Date | null,
): Promise<void> {
  await tx`select replace_api_key_secret(${tenantId}, ${id}, ${Buffer.from(secretHash)}, ${graceUntil})`;
}

/**
 * Revokes a key. The hashes of its secrets are kept, so that a caller who uses one is told why it is refused.
 * @returns false if the key was revoked before.
 */
export async function revokeApiKey(tenantId: TenantId, tx: TransactionSql, id: ApiKeyId): Promise<boolean> {
  const rows = await tx`
    update api_keys set revoked_at = now(), grace_until = null
    where tenant_id = ${tenantId} and id = ${id} and revoked_at is null returning id`;
  return rows.length > 0;
}

function statusOf(tx: TransactionSql) {
  return tx`case when revoked_at is not null then 'revoked' when expires_at <= now() then 'expired'
    when grace_until > now() then 'rotating' else 'active' end`;
}

function columns(tx: TransactionSql) {
  return tx`id, key_id, name, mode, scopes, rate_limit_rpm, ${statusOf(tx)} as status,
    case when ${statusOf(tx)} = 'rotating' then grace_until end as grace_until, expires_at, created_at,
    (select u.last_used_at from api_key_uses u where u.api_key_id = api_keys.id) as last_used_at`;
}
