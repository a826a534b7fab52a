-- Returns the usage of these tenants, of all if `of_tenants` is null, by day, for platform admins: counts by state and, with
-- `with_times`, durations as buckets (`counts`), in the requested groups; at most `most` rows of either kind. A column that is not
-- grouped by is null.
create or replace function usage_of_tenants(since timestamptz, until timestamptz, of_tenants uuid[], by_tenant boolean,
  by_day boolean, by_channel boolean, with_times boolean, most integer)
returns table (tenant_id uuid, slug text, period timestamptz, channel text, what text, messages float8, segments float8, counts float8[])
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off set jit = off as $$
  (select case when by_tenant then t.id end, case when by_tenant then t.slug end, case when by_day then u.period end,
      case when by_channel then u.channel end, u.status, sum(u.messages)::float8, sum(u.segments)::float8, null::float8[]
    from tenants t join usage_counts u on u.tenant_id = t.id and u.dimension = 'day' and u.period >= since and u.period < until
    where of_tenants is null or t.id = any (of_tenants)
    group by 1, 2, 3, 4, 5 having sum(u.messages) <> 0 order by 3, 2, 4, 5 limit most)
  union all
  (select s.tenant_id, o.slug, s.period, s.channel, s.until, null, null, array_agg(s.n order by s.nth)
    from (
      select case when by_tenant then t.id end as tenant_id, case when by_day then u.period end as period,
        case when by_channel then u.channel end as channel, u.until, b.nth, sum(b.n)::float8 as n
      from tenants t
      join usage_times u on u.tenant_id = t.id and u.dimension = 'day' and u.period >= since and u.period < usage_of_tenants.until,
      unnest(u.counts) with ordinality as b (n, nth)
      where with_times and (of_tenants is null or t.id = any (of_tenants))
      group by 1, 2, 3, 4, 5
    ) s left join tenants o on o.id = s.tenant_id
    group by 1, 2, 3, 4, 5 order by 3, 2, 4, 5 limit most)
$$;

grant execute on function usage_of_tenants(timestamptz, timestamptz, uuid[], boolean, boolean, boolean, boolean, integer) to despatch_api;
