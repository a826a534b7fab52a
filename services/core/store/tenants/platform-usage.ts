import type { Channel } from '#core/domain/message/channel.ts';
import type { PlatformUsageGroup, UsageSpan, UsageStatus } from '#core/domain/tenant/usage-query.ts';
import type { Sql, TransactionSql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from '../query/camel-rows.ts';
import { transactionWithin } from '../query/tenant-scope.ts';

/** The groups of a count; null for a group that was not requested. */
export type PlatformUsageKey = {
  readonly tenantId: string | null;
  readonly slug: string | null;
  readonly period: Date | null;
  readonly channel: Channel | null;
};

export type PlatformUsageRow = PlatformUsageKey &
  (
    | {
        readonly counts: null;
        readonly what: UsageStatus;
        readonly messages: number;
        readonly segments: number;
      }
    | { readonly counts: readonly number[]; readonly what: 'provider' | 'receipt' }
  );

/** Longer than the deadline of the api's other transactions, because it reads every tenant. */
const DEADLINE_MS = 15_000;

export type PlatformUsageQuestion = {
  readonly span: UsageSpan;
  readonly groups: ReadonlySet<PlatformUsageGroup>;
  /** Slug of the only tenant to count. */
  readonly tenant?: string | undefined;
  /** Counts so many tenants with usage, in the order of their slugs; all if absent. */
  readonly page?: { readonly tenants: number; readonly after?: string | undefined } | undefined;
  /** Maximum number of rows of counts, and of times. */
  readonly most: number;
};

export type PlatformUsageRows = {
  readonly rows: readonly PlatformUsageRow[];
  /** Slug of the page's last tenant; undefined if no tenant follows. */
  readonly next: string | undefined;
};

/**
 * Returns the usage of tenants, ordered by day, slug and channel; without times if grouped by state.
 * @throws DependencyError if it takes too long.
 */
export function readPlatformUsage(
  sql: Sql,
  { span, groups, tenant, page, most }: PlatformUsageQuestion,
): Promise<PlatformUsageRows> {
  const [since, until] = [new Date(span.since).toISOString(), new Date(span.until).toISOString()];
  return transactionWithin(
    sql,
    async (tx) => {
      // Makes the database end the query too, because nobody waits for it any more.
      await tx`select set_config('statement_timeout', ${String(DEADLINE_MS)}, true)`;
      const tenants = tenant === undefined && page === undefined ? undefined : await chosen(tx);
      const counted = tenants?.slice(0, page?.tenants);
      const rows = camelRows<PlatformUsageRow>(
        await tx`
          select tenant_id, slug, period, channel, what, messages, segments, counts
          from usage_of_tenants(${since}, ${until}, ${counted?.map(({ id }) => id) ?? null}::uuid[], ${groups.has('tenant')},
            ${groups.has('day')}, ${groups.has('channel')}, ${!groups.has('status')}, ${most})`.values(),
      );
      const hasMore = (counted?.length ?? 0) < (tenants?.length ?? 0);
      return { rows, next: hasMore ? counted?.at(-1)?.slug : undefined };
    },
    DEADLINE_MS,
  );

  /** Returns the tenants to count, and one more if any follows. */
  function chosen(tx: TransactionSql) {
    return tx<{ id: string; slug: string }[]>`
      select id, slug from tenants_with_usage(${since}, ${until}, ${tenant ?? null}, ${page?.after ?? null},
        ${page === undefined ? null : page.tenants + 1})`;
  }
}
