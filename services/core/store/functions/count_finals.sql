-- Counts messages that have become final, and the bounces and complaints reported for them, for the brakes of their channels.
-- `count_usage` calls it with the rows it has taken, each row once. Only messages sent by an account of the tenant count, neither
-- test messages nor simulators. A stretch holds fifty final messages in the order in which they became final; for each channel
-- the last twenty full stretches and the current one are kept. Returns the windows that have changed and contain a bounce or a
-- complaint: [{tenantId, channel, finals, hardBounces, complaints, level, busiestHour, liftedAt, limits}].
create or replace function count_finals(taken usage_moves[]) returns jsonb
language plpgsql set search_path = despatch, pg_temp as $$
declare
  tenants_changed uuid[];
  channels_changed text[];
begin
  with told as materialized (
    select p.tenant_id, p.channel, e.seq, t.at, t.tells, row_number() over () as n
    from unnest(taken) t
    cross join lateral unnest(t.seqs, t.account_ids) as e (seq, account_id)
    join provider_accounts p on p.id = e.account_id and p.provider not like 'simulator-%'
    join tenants o on o.id = p.tenant_id and o.status <> 'deleting'
    left join brakes b on b.tenant_id = p.tenant_id and b.channel = p.channel
    where t.tells is not null and t.at > coalesce(b.lifted_at, '-infinity')
  ), fact as materialized (
    -- A report that arrives together with the message's becoming final takes the message's position; a later report takes the
    -- position of the last final message.
    select t.tenant_id, t.channel, t.tells, coalesce(f.at, t.at) as at, coalesce(f.n, t.n) as n
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
    from fact f join begun b on b.tenant_id = f.tenant_id and b.channel = f.channel
  ), counted as (
    insert into final_stretches as s (tenant_id, channel, stretch, finals, hard_bounces, complaints)
    select p.tenant_id, p.channel, p.stretch, count(*) filter (where p.tells = 'final'),
      count(*) filter (where p.tells = 'hard_bounce'), count(*) filter (where p.tells = 'complaint')
    from placed p group by 1, 2, 3
    on conflict (tenant_id, channel, stretch) do update set finals = s.finals + excluded.finals,
      hard_bounces = s.hard_bounces + excluded.hard_bounces, complaints = s.complaints + excluded.complaints
  ), timed as (
    insert into final_hours as h (tenant_id, channel, hour, finals)
    select p.tenant_id, p.channel, date_bin('1 hour', p.at, 'epoch'), count(*) from placed p where p.tells = 'final' group by 1, 2, 3
    on conflict (tenant_id, channel, hour) do update set finals = h.finals + excluded.finals
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
  -- Longer than a week: complaints come days after a mailing, and many senders have one mailing a week.
  delete from final_hours h using changed c
  where h.tenant_id = c.tenant_id and h.channel = c.channel and h.hour < clock_timestamp() - interval '8 days';

  return (
    select jsonb_agg(jsonb_build_object('tenantId', c.tenant_id, 'channel', c.channel, 'finals', w.finals,
      'hardBounces', w.hard_bounces, 'complaints', w.complaints, 'level', b.level, 'liftedAt', b.lifted_at::text,
      'busiestHour', (select max(h.finals) from final_hours h where h.tenant_id = c.tenant_id and h.channel = c.channel),
      'limits', l.limits))
    from unnest(tenants_changed, channels_changed) as c (tenant_id, channel)
    cross join lateral (
      select sum(s.finals) as finals, sum(s.hard_bounces) as hard_bounces, sum(s.complaints) as complaints
      from final_stretches s where s.tenant_id = c.tenant_id and s.channel = c.channel
    ) w
    left join brakes b on b.tenant_id = c.tenant_id and b.channel = c.channel
    left join tenant_limits l on l.tenant_id = c.tenant_id
    where w.hard_bounces + w.complaints > 0);
end $$;
