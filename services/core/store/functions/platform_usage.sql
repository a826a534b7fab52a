-- Returns the usage of all tenants by day, for platform admins: counts by state, and durations as buckets (`counts`), in the
-- requested groups; at most `most` rows of either kind. A column that is not grouped by is null.
create or replace function platform_usage(since timestamptz, until timestamptz, by_tenant boolean, by_day boolean,
  by_channel boolean, most integer)
returns table (tenant_id uuid, slug text, period timestamptz, channel text, what text, messages float8, segments float8, counts float8[])
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off set jit = off as $$
  (select case when by_tenant then t.id end, case when by_tenant then t.slug end, case when by_day then u.period end,
      case when by_channel then u.channel end, u.status, sum(u.messages)::float8, sum(u.segments)::float8, null::float8[]
    from tenants t join usage_counts u on u.tenant_id = t.id and u.dimension = 'day' and u.period >= since and u.period < until
    group by 1, 2, 3, 4, 5 having sum(u.messages) <> 0 order by 3, 2, 4, 5 limit most)
  union all
  (select s.tenant_id, s.slug, s.period, s.channel, s.until, null, null, array_agg(s.n order by s.nth)
    from (
      select case when by_tenant then t.id end as tenant_id, case when by_tenant then t.slug end as slug,
        case when by_day then u.period end as period, case when by_channel then u.channel end as channel, u.until, b.nth,
        sum(b.n)::float8 as n
      from tenants t
      join usage_times u on u.tenant_id = t.id and u.dimension = 'day' and u.period >= since and u.period < platform_usage.until,
      unnest(u.counts) with ordinality as b (n, nth)
      group by 1, 2, 3, 4, 5, 6
    ) s
    group by 1, 2, 3, 4, 5 order by 3, 2, 4, 5 limit most)
$$;

grant execute on function platform_usage(timestamptz, timestamptz, boolean, boolean, boolean, integer) to despatch_api;
