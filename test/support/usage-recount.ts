import type { Sql } from '#core/platform/postgres/postgres.ts';

/** A difference between a tenant's usage and its messages: the number of messages and segments, as counted and as recounted. */
export type Miscount = {
  readonly tenantId: string;
  readonly dimension: string;
  readonly period: string;
  readonly channel: string;
  readonly value: string;
  readonly status: string;
  readonly counted: readonly [messages: number, segments: number];
  readonly stored: readonly [messages: number, segments: number];
};

/** Compares all usage with all messages. Every move must be counted, and no tenant may have more than 100 tags a day. */
export async function miscounts(sql: Sql): Promise<Miscount[]> {
  return sql<Miscount[]>`
    with message as (
      select m.tenant_id, date_trunc('hour', m.enqueued_at, 'UTC') as hour, date_trunc('day', m.enqueued_at, 'UTC') as day,
        m.channel, coalesce(m.api_key_id::text, '') as key, m.tags, coalesce(m.segments, 0) as segments,
        coalesce(s.status, 'in_progress') as status, coalesce(s.account_id::text, '') as account
      from messages m left join message_results s on s.seq = m.seq and s.purge_on = m.purge_on where not m.test
    ), stored as (
      select m.tenant_id, d.dimension, d.period, d.channel, d.value, m.status, count(*) as messages, sum(m.segments) as segments
      from message m, lateral (
        values ('hour', m.hour, m.channel, m.account), ('day', m.day, m.channel, m.account), ('key', m.day, '', m.key)
        union all select distinct 'tag', m.day, '', case when t <> 'other' then t else '' end from json_array_elements_text(m.tags) t
      ) d (dimension, period, channel, value)
      group by 1, 2, 3, 4, 5, 6
    )
    select tenant_id as "tenantId", dimension, period::text as period, channel, value, status,
      array[coalesce(c.messages, 0), coalesce(c.segments, 0)]::float8[] as counted,
      array[coalesce(s.messages, 0), coalesce(s.segments, 0)]::float8[] as stored
    from usage_counts c full join stored s using (tenant_id, dimension, period, channel, value, status)
    where coalesce(c.messages, 0) <> coalesce(s.messages, 0) or coalesce(c.segments, 0) <> coalesce(s.segments, 0)`;
}
