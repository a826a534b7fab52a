-- Counts messages that have become final, and the bounces and complaints reported for them, for the brakes of their channels.
-- `count_usage` calls it with the rows it has taken, each row once. Only messages sent by an account of the tenant count, neither
-- test messages nor simulators, nor messages that were final before the channel's brake was lifted.
-- Every report counts in the hour in which its message became final (`final_hours`). A stretch holds fifty final messages in the
-- order in which they became final, with the reports that came together with that; for each channel the last twenty full
-- stretches and the current one are kept.
-- Returns the channels that have changed and have a bounce or a complaint, with the sums of their stretches and with their hours,
-- the newest first: [{tenantId, channel, finals, hardBounces, complaints, hours: [{finals, hardBounces, complaints}], level,
-- busiestHour, liftedAt, limits}].
create or replace function count_finals(taken usage_moves[]) returns jsonb
language plpgsql set search_path = despatch, pg_temp as $$
declare
  -- Complaints come days after a mailing, and many senders have one mailing a week.
  oldest constant timestamptz := clock_timestamp() - interval '8 days';
  tenants_changed uuid[];
  channels_changed text[];
begin
  with told as materialized (
    select p.tenant_id, p.channel, e.seq, coalesce(e.final_at, t.at) as at, t.tells, row_number() over () as n
    from unnest(taken) t
    cross join lateral unnest(t.seqs, t.account_ids, t.final_at) as e (seq, account_id, final_at)
    join provider_accounts p on p.id = e.account_id and p.provider not like 'simulator-%'
    join tenants o on o.id = p.tenant_id and o.status <> 'deleting'
    left join brakes b on b.tenant_id = p.tenant_id and b.channel = p.channel
    where t.tells is not null and coalesce(e.final_at, t.at) > coalesce(b.lifted_at, '-infinity')
  ), fact as materialized (
    -- A report that arrives together with the message's becoming final has the message's position; a later one has none.
    select t.tenant_id, t.channel, t.tells, coalesce(f.at, t.at) as at, case when t.tells = 'final' then t.n else f.n end as n
    from told t left join told f on f.seq = t.seq and f.tells = 'final' and t.tells <> 'final'
  ), begun as materialized (
    select c.tenant_id, c.channel, coalesce(50 * s.stretch + s.finals, 0) as finals
    from (select distinct f.tenant_id, f.channel from fact f) c
    left join lateral (
      select x.stretch, x.finals from final_stretches x
      where x.tenant_id = c.tenant_id and x.channel = c.channel order by x.stretch desc limit 1
    ) s on true
  ), placed as materialized (
    select f.*, greatest(0, b.finals - 1 + count(*) filter (where f.tells = 'final') over (
      partition by f.tenant_id, f.channel order by f.at, f.n, f.tells <> 'final'
      rows unbounded preceding)) / 50 as stretch
    from fact f join begun b on b.tenant_id = f.tenant_id and b.channel = f.channel where f.n is not null
  ), counted as (
    insert into final_stretches as s (tenant_id, channel, stretch, finals, hard_bounces, complaints)
    select p.tenant_id, p.channel, p.stretch, count(*) filter (where p.tells = 'final'),
      count(*) filter (where p.tells = 'hard_bounce'), count(*) filter (where p.tells = 'complaint')
    from placed p group by 1, 2, 3
    on conflict (tenant_id, channel, stretch) do update set finals = s.finals + excluded.finals,
      hard_bounces = s.hard_bounces + excluded.hard_bounces, complaints = s.complaints + excluded.complaints
  ), timed as (
    insert into final_hours as h (tenant_id, channel, hour, finals, rated, hard_bounces, complaints)
    select f.tenant_id, f.channel, date_bin('1 hour', f.at, 'epoch'), count(*) filter (where f.tells = 'final'),
      count(*) filter (where f.tells = 'final'), count(*) filter (where f.tells = 'hard_bounce'),
      count(*) filter (where f.tells = 'complaint')
    from fact f group by 1, 2, 3
    on conflict (tenant_id, channel, hour) do update set finals = h.finals + excluded.finals, rated = h.rated + excluded.rated,
      hard_bounces = h.hard_bounces + excluded.hard_bounces, complaints = h.complaints + excluded.complaints
  )
  select array_agg(b.tenant_id), array_agg(b.channel) into tenants_changed, channels_changed from begun b;
  if tenants_changed is null then
    return null;
  end if;

  with changed as (
    select * from unnest(tenants_changed, channels_changed) as u (tenant_id, channel)
  ), gone as (
    delete from final_stretches s using changed c
    where s.tenant_id = c.tenant_id and s.channel = c.channel and s.stretch < (
      select max(50 * x.stretch + x.finals) / 50 - 20 from final_stretches x where x.tenant_id = c.tenant_id and x.channel = c.channel)
  )
  -- A channel that sends little keeps as many hours as have its last 1,000 final messages.
  delete from final_hours h using (
    select c.tenant_id, c.channel, (
      select y.hour from (
        select x.hour, sum(x.rated) over (order by x.hour desc) as total
        from final_hours x where x.tenant_id = c.tenant_id and x.channel = c.channel) y
      where y.total >= 1000 order by y.hour desc limit 1) as first_needed
    from changed c
    where (select min(x.hour) from final_hours x where x.tenant_id = c.tenant_id and x.channel = c.channel) < oldest
  ) c
  where h.tenant_id = c.tenant_id and h.channel = c.channel and h.hour < oldest and (h.rated = 0 or h.hour < c.first_needed);

  return (
    select jsonb_agg(jsonb_build_object('tenantId', c.tenant_id, 'channel', c.channel, 'finals', coalesce(w.finals, 0),
      'hardBounces', coalesce(w.hard_bounces, 0), 'complaints', coalesce(w.complaints, 0), 'hours', h.hours, 'level', b.level,
      'liftedAt', b.lifted_at::text, 'busiestHour', h.busiest, 'limits', l.limits))
    from unnest(tenants_changed, channels_changed) as c (tenant_id, channel)
    cross join lateral (
      select sum(s.finals) as finals, sum(s.hard_bounces) as hard_bounces, sum(s.complaints) as complaints
      from final_stretches s where s.tenant_id = c.tenant_id and s.channel = c.channel
    ) w
    cross join lateral (
      select coalesce(sum(x.hard_bounces + x.complaints), 0) as hits, max(x.finals) filter (where x.hour >= oldest) as busiest,
        coalesce(jsonb_agg(jsonb_build_object('finals', x.rated, 'hardBounces', x.hard_bounces, 'complaints', x.complaints)
          order by x.hour desc) filter (where x.rated + x.hard_bounces + x.complaints > 0), '[]') as hours
      from final_hours x where x.tenant_id = c.tenant_id and x.channel = c.channel
    ) h
    left join brakes b on b.tenant_id = c.tenant_id and b.channel = c.channel
    left join tenant_limits l on l.tenant_id = c.tenant_id
    -- A report in a stretch is in its hour too.
    where h.hits > 0);
end $$;
