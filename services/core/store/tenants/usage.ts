import type { Channel } from '#core/domain/message/channel.ts';
import type { TenantId } from '#core/domain/storage/ids.ts';
import type { UsageDimension, UsageGroup, UsageSpan, UsageStatus } from '#core/domain/tenant/usage-query.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';

/** The groups of a count; null for a group that was not requested. */
export type UsageKey = {
  readonly period: Date | null;
  readonly channel: Channel | null;
  /** The id of an account or key, or a tag; empty for none. */
  readonly value: string | null;
};

export type UsageCount = UsageKey & {
  readonly status: UsageStatus;
  readonly messages: number;
  readonly segments: number;
};

export type UsageTimes = UsageKey & {
  readonly until: 'provider' | 'receipt';
  /** Numbers of messages by duration (core/domain/tenant/time-buckets.ts). */
  readonly counts: readonly number[];
};

export type UsageQuestion = {
  readonly dimension: UsageDimension;
  readonly groups: ReadonlySet<UsageGroup>;
  readonly span: UsageSpan;
  /** Maximum number of rows read of either kind; if there are more, the answer would be too large. */
  readonly most: number;
};

/**
 * Returns a tenant's counts, by state within the groups, and its durations, in the order of the groups; no durations if grouped by
 * state, because they are not of one state.
 */
export async function readUsage(
  tenantId: TenantId,
  tx: TransactionSql,
  { dimension, groups, span, most }: UsageQuestion,
): Promise<{ readonly counts: readonly UsageCount[]; readonly times: readonly UsageTimes[] }> {
  const hasValue = groups.has('provider') || dimension === 'tag' || dimension === 'key';
  const key = tx`
    ${groups.has('day') || groups.has('hour') ? tx`u.period` : tx`null::timestamptz`} as period,
    ${groups.has('channel') ? tx`u.channel` : tx`null::text`} as channel,
    ${hasValue ? tx`u.value` : tx`null::text`} as value`;
  const where = tx`
    u.tenant_id = ${tenantId} and u.dimension = ${dimension}
    and u.period >= ${new Date(span.since).toISOString()}::timestamptz
    and u.period < ${new Date(span.until).toISOString()}::timestamptz`;
  const [counts, times] = await Promise.all([
    tx<UsageCount[]>`
      select ${key}, u.status, sum(u.messages)::float8 as messages, sum(u.segments)::float8 as segments
      from usage_counts u where ${where}
      group by 1, 2, 3, 4 having sum(u.messages) <> 0 order by 1, 2, 3, 4 limit ${most}`,
    groups.has('status')
      ? []
      : tx<UsageTimes[]>`
      select s.period, s.channel, s.value, s.until, array_agg(s.n order by s.nth) as counts
      from (
        select ${key}, u.until, b.nth, sum(b.n)::float8 as n
        from usage_times u, unnest(u.counts) with ordinality as b (n, nth) where ${where}
        group by 1, 2, 3, 4, 5
      ) s
      group by 1, 2, 3, 4 limit ${most}`,
  ]);
  return { counts, times };
}

export type UsageAccount = { readonly id: string; readonly provider: string; readonly label: string };

/** Returns those of these accounts that belong to the tenant, including deleted ones. */
export async function usageAccounts(
  tenantId: TenantId,
  tx: TransactionSql,
  ids: readonly string[],
): Promise<readonly UsageAccount[]> {
  return tx<UsageAccount[]>`
    select id, provider, label from provider_accounts where tenant_id = ${tenantId} and id = any (${[...ids]}::uuid[])`;
}
