import { HEALTH_PERIOD_MINUTES, type AccountCounts } from '#core/domain/account/account-health.ts';
import type { ProviderAccountId, TenantId } from '#core/domain/storage/ids.ts';
import type { TransactionSql } from '#core/platform/postgres/postgres.ts';

/** Counts since `since`, the start of their first period. */
export type CountsSince = AccountCounts & { readonly since: Date };

/**
 * Returns the results of the account's calls and receipts in the last hour and in the last day; each span is at most 5 minutes
 * longer.
 */
export async function readAccountCounts(
  tenantId: TenantId,
  tx: TransactionSql,
  id: ProviderAccountId,
): Promise<{ readonly lastHour: CountsSince; readonly lastDay: CountsSince }> {
  const spans = tx`
    select v.name, date_bin(make_interval(mins => ${HEALTH_PERIOD_MINUTES}), now() - v.length, 'epoch') as since
    from (values ('lastHour', interval '1 hour'), ('lastDay', interval '1 day')) v (name, length)`;
  const isCounted = tx`c.tenant_id = ${tenantId} and c.account_id = ${id} and c.period >= s.since`;
  const [sums, times] = await Promise.all([
    tx<({ readonly name: string; readonly since: Date } & Omit<AccountCounts, 'callTimes'>)[]>`
      select s.name, s.since, ${sum(tx, 'accepted')}, ${sum(tx, 'refused')}, ${sum(tx, 'failed')},
        ${sum(tx, 'delivered')}, ${sum(tx, 'undelivered')}
      from (${spans}) s left join account_counts c on ${isCounted} group by 1, 2`,
    tx<{ readonly name: string; readonly counts: readonly number[] }[]>`
      select n.name, array_agg(n.n order by n.nth) as counts
      from (
        select s.name, b.nth, sum(b.n)::float8 as n
        from (${spans}) s join account_counts c on ${isCounted}, unnest(c.call_times) with ordinality as b (n, nth)
        group by 1, 2
      ) n
      group by 1`,
  ]);
  const countsOf = (span: string): CountsSince => {
    const found = sums.find(({ name }) => name === span);
    if (found === undefined) throw new Error(`no row for ${span}`);
    const { name: _, ...rest } = found;
    return { ...rest, callTimes: times.find(({ name }) => name === span)?.counts ?? [] };
  };
  return { lastHour: countsOf('lastHour'), lastDay: countsOf('lastDay') };
}

function sum(tx: TransactionSql, column: string) {
  return tx`coalesce(sum(c.${tx(column)}), 0)::float8 as ${tx(column)}`;
}
