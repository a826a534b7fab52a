import type { AccountStatus } from '#core/domain/account/account-state.ts';
import type { Channel } from '#core/domain/message/channel.ts';
import type { ProviderAccountId, TenantId } from '#core/domain/storage/ids.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from '../query/camel-rows.ts';

export const VERIFICATION_RESULTS = ['valid', 'invalid', 'unknown'] as const;

/** A finished credential check; `reason` says why it was not `valid`. */
export type Verification = {
  readonly at: Date;
  readonly result: (typeof VERIFICATION_RESULTS)[number];
  readonly reason: string | null;
};

export type RefusedReceipt = { readonly at: Date; readonly reason: string };

/** Everything that the api may know of an account: all but its secret. Deleted accounts are not visible. */
export type ProviderAccount = {
  readonly id: ProviderAccountId;
  readonly provider: string;
  readonly channel: Channel;
  readonly label: string;
  readonly status: AccountStatus;
  readonly statusReason: string | null;
  readonly health: 'healthy' | 'open' | 'probing';
  /** As the tenant sent it, with its keys in order. */
  readonly configPublic: Record<string, unknown>;
  readonly rateLimitPerSecond: number | null;
  readonly secretVersion: number;
  /** Incremented by every change of settings, secret or use, and by every request for a check. */
  readonly version: number;
  /** Null until the current settings and secret have been checked. */
  readonly lastVerification: Verification | null;
  readonly verifiedAt: Date | null;
  /** Version of the token in its receipt URL. */
  readonly receiptVersion: number;
  /** When the last genuine call arrived, accurate to a minute. */
  readonly lastReceiptAt: Date | null;
  /** The last call that was not the provider's, or from which nothing could be stored. */
  readonly lastRefusedReceipt: RefusedReceipt | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
};

type AccountRow = Omit<ProviderAccount, 'lastVerification' | 'lastRefusedReceipt'> & {
  readonly verificationAt: Date | null;
  readonly verificationResult: Verification['result'] | null;
  readonly verificationReason: string | null;
  readonly receiptRefusedAt: Date | null;
  readonly receiptRefusedReason: string | null;
};

export type NewProviderAccount = {
  readonly id: ProviderAccountId;
  readonly provider: string;
  readonly channel: Channel;
  readonly label: string;
  readonly configPublic: Record<string, unknown>;
  readonly rateLimitPerSecond: number | null;
  readonly ciphertext: string;
};

export async function insertAccount(
  tenantId: TenantId,
  tx: TransactionSql,
  account: NewProviderAccount,
): Promise<ProviderAccount> {
  const [row] = camelRows<AccountRow>(
    await tx`
      insert into provider_accounts (id, tenant_id, provider, channel, label, config_public, rate_limit_per_second, ciphertext,
        verify_requested_at)
      values (${account.id}, ${tenantId}, ${account.provider}, ${account.channel}, ${account.label},
        ${JSON.stringify(account.configPublic)}::text::json, ${account.rateLimitPerSecond}, ${account.ciphertext},
        now())
      returning ${columns(tx)}`.values(),
  );
  if (row === undefined) throw new Error('a new provider account returned no row');
  return toAccount(row);
}

export async function findAccount(
  tenantId: TenantId,
  tx: TransactionSql,
  id: ProviderAccountId,
): Promise<ProviderAccount | undefined> {
  const [row] = camelRows<AccountRow>(
    await tx`
      select ${columns(tx)} from provider_accounts where tenant_id = ${tenantId} and id = ${id} and status <> 'deleted'`.values(),
  );
  return row && toAccount(row);
}

export type ProviderQuery = {
  readonly channel?: Channel | undefined;
  readonly status?: AccountStatus | undefined;
  readonly provider?: string | undefined;
  /** Only accounts older than this position. */
  readonly before: number | undefined;
  readonly most: number;
};

/** Returns accounts, newest first. */
export async function listAccounts(
  tenantId: TenantId,
  tx: TransactionSql,
  query: ProviderQuery,
): Promise<{ readonly account: ProviderAccount; readonly seq: number }[]> {
  const { channel, status, provider, before, most } = query;
  // Tests break this (mutant: account-list-tenant): queries filter by tenant themselves, beside row-level security.
  const rows = camelRows<AccountRow & { readonly seq: number }>(
    await tx`
      select seq, ${columns(tx)} from provider_accounts
      where tenant_id = ${tenantId} and status <> 'deleted'
        ${channel === undefined ? tx`` : tx`and channel = ${channel}`}
        ${status === undefined ? tx`` : tx`and status = ${status}`}
        ${provider === undefined ? tx`` : tx`and provider = ${provider}`}
        ${before === undefined ? tx`` : tx`and seq < ${before}`}
      order by seq desc limit ${most}`.values(),
  );
  return rows.map(({ seq, ...row }) => ({ account: toAccount(row), seq }));
}

export async function countAccounts(
  tenantId: TenantId,
  tx: TransactionSql,
  channel: Channel,
): Promise<number> {
  const [row] = await tx<{ n: number }[]>`
    select count(*)::integer as n from provider_accounts
    where tenant_id = ${tenantId} and channel = ${channel} and status <> 'deleted'`;
  return row?.n ?? 0;
}

/** Returns ids of all accounts of the channel, including disabled ones. */
export async function listChannelAccounts(
  tenantId: TenantId,
  tx: TransactionSql,
  channel: Channel,
): Promise<ProviderAccountId[]> {
  const rows = await tx<{ id: ProviderAccountId }[]>`
    select id from provider_accounts where tenant_id = ${tenantId} and channel = ${channel} and status <> 'deleted'`;
  return rows.map(({ id }) => id);
}

export type ProviderChange = {
  readonly label?: string | undefined;
  readonly rateLimitPerSecond?: number | null | undefined;
  readonly configPublic?: Record<string, unknown> | undefined;
  /** Whether these settings name another server, or another account of the vendor. Default: false. */
  readonly isMove?: boolean;
};

export async function updateAccount(
  tenantId: TenantId,
  tx: TransactionSql,
  id: ProviderAccountId,
  change: ProviderChange,
): Promise<void> {
  const { label, rateLimitPerSecond, configPublic, isMove = false } = change;
  await tx`
    update provider_accounts set updated_at = now()
      ${label === undefined ? tx`` : tx`, label = ${label}`}
      ${rateLimitPerSecond === undefined ? tx`` : tx`, rate_limit_per_second = ${rateLimitPerSecond}`}
      ${configPublic === undefined ? tx`` : tx`, config_public = ${JSON.stringify(configPublic)}::text::json`}
      ${isMove ? tx`, moved_at = clock_timestamp()` : tx``}
    where tenant_id = ${tenantId} and id = ${id} and status <> 'deleted'`;
}

/**
 * Resets the verification after a change of settings or secret: the account is unverified and about to be checked. A disabled
 * account stays disabled, and is checked when it is enabled.
 */
export async function markUnverified(
  tenantId: TenantId,
  tx: TransactionSql,
  id: ProviderAccountId,
): Promise<void> {
  await tx`
    update provider_accounts set version = version + 1, auth_failures = 0, status_reason = null, updated_at = now(),
      status = case when may_move_account('tenant', status, 'unverified') then 'unverified' else status end,
      verify_requested_at = case when may_move_account('tenant', status, 'unverified') then now() end,
      verification_at = null, verification_result = null, verification_reason = null, verified_at = null
    where tenant_id = ${tenantId} and id = ${id} and status <> 'deleted'`;
}

/** How long a replaced secret is kept, so that a mistaken change can be traced and sends under way can finish. */
const KEEP_REPLACED = '15 minutes';

export async function replaceAccountSecret(
  tenantId: TenantId,
  tx: TransactionSql,
  id: ProviderAccountId,
  ciphertext: string,
): Promise<{ readonly secretVersion: number; readonly rotatedAt: Date } | undefined> {
  const [row] = camelRows<{ readonly secretVersion: number; readonly rotatedAt: Date }>(
    await tx`
      select * from replace_account_secret(${tenantId}, ${id}, ${ciphertext}, ${KEEP_REPLACED})`.values(),
  );
  return row;
}

/** Enables or disables an account. Enabling resets its failures and requests a check, so that earlier refusals do not count. */
export async function setAccountStatus(
  tenantId: TenantId,
  tx: TransactionSql,
  id: ProviderAccountId,
  status: 'active' | 'disabled',
): Promise<void> {
  await tx`
    update provider_accounts set status = ${status}, status_reason = null, auth_failures = 0, version = version + 1,
      verify_requested_at = ${status === 'active' ? tx`now()` : null}, updated_at = now()
    where tenant_id = ${tenantId} and id = ${id} and may_move_account('tenant', status, ${status})`;
}

/**
 * Requests a credential check, which a worker makes. Increments the version, so that the result of a check that began before does
 * not count.
 */
export async function requestVerification(
  tenantId: TenantId,
  tx: TransactionSql,
  id: ProviderAccountId,
): Promise<void> {
  await tx`
    update provider_accounts set verify_requested_at = now(), version = version + 1, updated_at = now()
    where tenant_id = ${tenantId} and id = ${id} and status not in ('disabled', 'deleted')`;
}

type RotatedUrl = { readonly receiptVersion: number; readonly previousUntil: Date | null };

/**
 * Replaces the token in the receipt URL. Increments the version, so that workers drop their cached copies. The result of a check
 * that is under way then does not count: the check is due again at once.
 * @returns until when the former URL is valid too; null if it is not.
 */
export async function rotateReceiptUrl(
  tenantId: TenantId,
  tx: TransactionSql,
  id: ProviderAccountId,
  graceSeconds: number,
): Promise<RotatedUrl | undefined> {
  const [row] = camelRows<RotatedUrl>(
    await tx`
      update provider_accounts set receipt_version = receipt_version + 1, version = version + 1, updated_at = now(),
        receipt_grace_until = case when ${graceSeconds}::integer > 0
          then now() + make_interval(secs => ${graceSeconds}::integer) end,
        verify_requested_at = case when verify_requested_at is not null then now() end
      where tenant_id = ${tenantId} and id = ${id} and status <> 'deleted'
      returning receipt_version, receipt_grace_until as previous_until`.values(),
  );
  return row;
}

/** Deletes an account. The row stays for the messages that refer to it; the current and previous secrets are deleted at once. */
export async function deleteAccount(
  tenantId: TenantId,
  tx: TransactionSql,
  id: ProviderAccountId,
): Promise<void> {
  await tx`
    update provider_accounts set status = 'deleted', status_reason = null, ciphertext = null, previous_ciphertext = null,
      previous_until = null, verify_requested_at = null, version = version + 1, updated_at = now()
    where tenant_id = ${tenantId} and id = ${id} and may_move_account('tenant', status, 'deleted')`;
}

/** Makes messages that wait for this account due at once. */
export async function wakeWaiting(
  tenantId: TenantId,
  tx: TransactionSql,
  id: ProviderAccountId,
): Promise<void> {
  await tx`select wake_waiting(id) from provider_accounts where tenant_id = ${tenantId} and id = ${id}`;
}

function columns(tx: TransactionSql) {
  return tx`id, provider, channel, label, status, status_reason, health, config_public, rate_limit_per_second,
    secret_version, version, verification_at, verification_result, verification_reason, verified_at,
    receipt_version, reported_at as last_receipt_at, receipt_refused_at, receipt_refused_reason, created_at, updated_at`;
}

function toAccount({
  verificationAt,
  verificationResult: result,
  verificationReason,
  receiptRefusedAt,
  receiptRefusedReason,
  ...account
}: AccountRow): ProviderAccount {
  return {
    ...account,
    lastVerification:
      verificationAt === null || result === null
        ? null
        : { at: verificationAt, result, reason: verificationReason },
    lastRefusedReceipt:
      receiptRefusedAt === null || receiptRefusedReason === null
        ? null
        : { at: receiptRefusedAt, reason: receiptRefusedReason },
  };
}
