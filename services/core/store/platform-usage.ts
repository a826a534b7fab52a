import type { Channel } from '#core/domain/message/channel.ts';
import type { PlatformUsageGroup, UsageSpan, UsageStatus } from '#core/domain/tenant/usage-query.ts';
import type { Sql } from '#core/platform/postgres/postgres.ts';
import { camelRows } from './camel-rows.ts';
import { transactionWithin } from './tenant-scope.ts';

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

/**
 * Returns the usage of all tenants, ordered by day, slug and channel.
 * @param most rows of counts, and of times.
 * @throws DependencyError if it takes too long.
 */
export function readPlatformUsage(
  sql: Sql,
  { since, until }: UsageSpan,
  groups: ReadonlySet<PlatformUsageGroup>,
  most: number,
): Promise<readonly PlatformUsageRow[]> {
  return transactionWithin(
    sql,
    async (tx) => {
      // Makes the database end the query too, because nobody waits for it any more.
      await tx`select set_config('statement_timeout', ${String(DEADLINE_MS)}, true)`;
      return camelRows<PlatformUsageRow>(
        await tx`
          select tenant_id, slug, period, channel, what, messages, segments, counts
          from platform_usage(${new Date(since).toISOString()}, ${new Date(until).toISOString()}, ${groups.has('tenant')},
            ${groups.has('day')}, ${groups.has('channel')}, ${most})`.values(),
      );
    },
    DEADLINE_MS,
  );
}
