-- Adds up the committed moves of messages that are not counted yet (`usage_moves`), and deletes them in the same transaction, so
-- that each counts once. A pass takes commits until they contain `most` moves, and one pass runs at a time. Messages of test keys and of tenants that
-- are being purged do not count. Calls and receipts among the rows are also added up by account and by the time at which they
-- ended or arrived (`account_counts`).
--
-- The search starts at the oldest transaction that the previous pass could not see, so that it does not scan past deleted rows,
-- however long an old snapshot keeps them. In a database restored into another cluster transaction ids are different: then the
-- whole table is searched.
-- `windows`: the changed windows of channels, as `count_finals` returns them.
-- Outcomes: counted; more (at least `most` moves waited); idle; early (the previous pass ran less than `gap_ms` ago); elsewhere
-- (another worker is running a pass).
create or replace function count_usage(most integer, gap_ms integer, out outcome text, out windows jsonb)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_mergejoin = off set jit = off set work_mem = '32MB' as $$
declare
  at_now timestamptz := clock_timestamp();
  before usage_passes;
  seen pg_snapshot;
  taken usage_moves[];
  is_whole boolean;
  day date;
begin
  if not pg_try_advisory_xact_lock(hashtext('despatch.usage')) then
    outcome := 'elsewhere';
    return;
  end if;
  -- Read after the lock, so that the previous pass has committed.
  select p.* into before from usage_passes p order by p.id desc limit 1;
  if before.is_whole and before.at between at_now - make_interval(secs => gap_ms / 1000.0) and at_now then
    outcome := 'early';
    return;
  end if;
  -- Taken before the rows are read: a transaction that is running now is counted by this pass or by a later one.
  seen := pg_current_snapshot();
  if is_foreign_xid(before.from_xid) then
    before.from_xid := '0';
  end if;
  with gone as (
    delete from usage_moves u where u.ctid = any (array(
      select y.ctid from (
        select x.ctid, sum(cardinality(x.seqs)) over (order by x.xid, x.ctid rows between unbounded preceding and 1 preceding) as earlier
        from usage_moves x where x.xid >= before.from_xid order by x.xid, x.ctid limit most) y
      where coalesce(y.earlier, 0) < most))
    returning u
  )
  select array_agg(g.u) into taken from gone g;
  if taken is null then
    outcome := 'idle';
    return;
  end if;
  is_whole := (select sum(cardinality(t.seqs)) from unnest(taken) t) < most;

  -- One retention week at a time, so that all other partitions are pruned before the look-up starts.
  for day in select distinct t.purge_on from unnest(taken) t where t.was is distinct from t.became loop
    with moved as materialized (
      select e.seq, t.at, t.was, t.became, t.by_call, e.account_id, e.receipt_ms
      from unnest(taken) t, unnest(t.seqs, t.account_ids, t.receipt_ms) as e (seq, account_id, receipt_ms)
      where t.purge_on = day and t.was is distinct from t.became
    ), message as materialized (
      select m.seq, m.tenant_id, m.channel, m.api_key_id, m.tags::text as tags, coalesce(m.segments, 0) as segments,
        greatest(m.enqueued_at, m.scheduled_at) as waits_since,
        date_bin('1 hour', m.enqueued_at, 'epoch') as hour
      from messages m
      where m.purge_on = day and m.seq = any (array(select distinct x.seq from moved x)) and not m.test
    ), fact as materialized (
      -- Grouped once, so that what follows reads few rows: most messages of a tenant have tags in common with many others.
      select m.tenant_id, m.hour, m.channel, m.api_key_id, m.tags, x.account_id, x.was, x.became,
        case when x.by_call then time_bucket(1000 * date_part('epoch', x.at - m.waits_since)) end as provider_bucket,
        case when x.receipt_ms is not null then time_bucket(x.receipt_ms) end as receipt_bucket,
        min(m.seq) as first_seq, count(*) as n, sum(m.segments) as segments
      from moved x join message m on m.seq = x.seq
      group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10
    ), counted_fact as materialized (
      select f.*, date_trunc('day', f.hour, 'UTC') as day from fact f
      where exists (select from tenants t where t.id = f.tenant_id and t.status <> 'deleting')
    ), fine as materialized (
      select g.*, coalesce(g.api_key_id::text, '') as key, coalesce(g.account_id::text, '') as account
      from (
        select f.tenant_id, f.hour, f.day, f.channel, f.api_key_id, f.account_id, f.was, f.became, null::text as what,
          null::integer as bucket, sum(f.n) as n, sum(f.segments) as segments
        from counted_fact f group by 1, 2, 3, 4, 5, 6, 7, 8
        union all
        select f.tenant_id, f.hour, f.day, f.channel, f.api_key_id, f.account_id, null, null, 'provider', f.provider_bucket, sum(f.n), 0
        from counted_fact f where f.provider_bucket is not null group by 1, 2, 3, 4, 5, 6, 10
        union all
        select f.tenant_id, f.hour, f.day, f.channel, f.api_key_id, f.account_id, null, null, 'receipt', f.receipt_bucket, sum(f.n), 0
        from counted_fact f where f.receipt_bucket is not null group by 1, 2, 3, 4, 5, 6, 10
      ) g
    ), tagged as materialized (
      select f.tenant_id, f.day, u.tag, f.was, f.became, f.provider_bucket, f.receipt_bucket, min(f.first_seq) as first_seq,
        sum(f.n) as n, sum(f.segments) as segments
      from counted_fact f, lateral (select distinct t.tag from json_array_elements_text(f.tags::json) as t (tag)) u
      where f.tags is not null group by 1, 2, 3, 4, 5, 6, 7
    ), tag as materialized (
      -- The first hundred tags of a day are counted separately from when they first occur; any other tag of that day is counted
      -- among the rest.
      select g.tenant_id, g.day, g.tag, k.is_known,
        row_number() over (partition by g.tenant_id, g.day, k.is_known order by min(g.first_seq), g.tag) as nth
      from tagged g, lateral (select exists (
        select from usage_counts c where c.tenant_id = g.tenant_id and c.dimension = 'tag' and c.period = g.day
          and c.channel = '' and c.value = g.tag) as is_known offset 0) k
      where g.tag not in ('', 'other')
      group by 1, 2, 3, 4
    ), room as materialized (
      select d.tenant_id, d.day, 100 - (
        select count(distinct c.value) from usage_counts c
        where c.tenant_id = d.tenant_id and c.dimension = 'tag' and c.period = d.day and c.value <> '') as n
      from (select distinct t.tenant_id, t.day from tag t where not t.is_known) d
    ), own_tag as materialized (
      select t.tenant_id, t.day, t.tag from tag t left join room r on r.tenant_id = t.tenant_id and r.day = t.day
      where t.is_known or t.nth <= r.n
    ), change as (
      -- For a move: minus one in the old state, plus one in the new state, and its durations. A duration has the number of its
      -- bucket; a state has none.
      select f.tenant_id, d.dimension, d.period, d.channel, d.value, w.what, f.bucket, w.sign * f.n as n,
        w.sign * f.segments as segments
      from fine f, lateral (values (f.what, 1), (f.became, 1), (f.was, -1)) w (what, sign),
        lateral (values
          ('hour', f.hour, f.channel, case when w.what <> 'in_progress' then f.account else '' end),
          ('day', f.day, f.channel, case when w.what <> 'in_progress' then f.account else '' end),
          ('key', f.day, '', f.key)) d (dimension, period, channel, value)
      where w.what is not null
      union all
      select g.tenant_id, 'tag', g.day, '', coalesce(o.tag, ''), w.what, w.bucket, w.sign * g.n, w.sign * g.segments
      from tagged g left join own_tag o on o.tenant_id = g.tenant_id and o.day = g.day and o.tag = g.tag,
        lateral (values (g.became, null::integer, 1), (g.was, null, -1), (
          case when g.provider_bucket is not null then 'provider' end, g.provider_bucket, 1), (
          case when g.receipt_bucket is not null then 'receipt' end, g.receipt_bucket, 1)) w (what, bucket, sign)
      where w.what is not null
    ), delta as materialized (
      select c.tenant_id, c.dimension, c.period, c.channel, c.value, c.what, c.bucket, sum(c.n)::bigint as n,
        sum(c.segments)::bigint as segments
      from change c group by 1, 2, 3, 4, 5, 6, 7 having sum(c.n) <> 0 or sum(c.segments) <> 0
    ), counted as (
      insert into usage_counts as u (tenant_id, dimension, period, channel, value, status, messages, segments)
      select d.tenant_id, d.dimension, d.period, d.channel, d.value, d.what, d.n, d.segments from delta d where d.bucket is null
      on conflict (tenant_id, dimension, period, channel, value, status)
      do update set messages = u.messages + excluded.messages, segments = u.segments + excluded.segments
    )
    insert into usage_times as u (tenant_id, dimension, period, channel, value, until, counts)
    select g.tenant_id, g.dimension, g.period, g.channel, g.value, g.what,
      -- By position in an array: a join for each row would take longer than the rest of the pass.
      array(select coalesce(g.ns[array_position(g.buckets, b)], 0) from generate_series(0, g.top) b)
    from (
      select d.tenant_id, d.dimension, d.period, d.channel, d.value, d.what, max(d.bucket) as top,
        array_agg(d.bucket) as buckets, array_agg(d.n) as ns
      from delta d where d.bucket is not null group by 1, 2, 3, 4, 5, 6
    ) g
    on conflict (tenant_id, dimension, period, channel, value, until)
    do update set counts = array(
      select coalesce(u.counts[b], 0) + coalesce(excluded.counts[b], 0)
      from generate_series(1, greatest(cardinality(u.counts), cardinality(excluded.counts))) b);
  end loop;

  with told as materialized (
    select e.account_id, date_bin('5 minutes', t.at, 'epoch') as period, t.call_end, time_bucket(e.call_ms) as bucket,
      case when t.became = 'delivered' then 1 when t.was = 'delivered' then -1 else 0 end as delivered,
      case when t.became = 'undelivered' then 1 when t.was = 'undelivered' then -1 else 0 end as undelivered
    from unnest(taken) t, unnest(t.account_ids, t.call_ms) as e (account_id, call_ms)
    where e.account_id is not null and (t.call_end is not null
      or t.became in ('delivered', 'undelivered') or t.was in ('delivered', 'undelivered'))
  ), summed as materialized (
    select x.account_id, x.period, count(*) filter (where x.call_end = 'accepted') as accepted,
      count(*) filter (where x.call_end = 'refused') as refused, count(*) filter (where x.call_end = 'failed') as failed,
      sum(x.delivered) as delivered, sum(x.undelivered) as undelivered
    from told x group by x.account_id, x.period
  ), timed as materialized (
    select y.account_id, y.period, max(y.bucket) as top, array_agg(y.bucket) as buckets, array_agg(y.n) as ns
    from (
      select x.account_id, x.period, x.bucket, count(*) as n
      from told x where x.call_end is not null and x.bucket is not null group by x.account_id, x.period, x.bucket
    ) y
    group by y.account_id, y.period
  )
  insert into account_counts as c (tenant_id, account_id, period, accepted, refused, failed, delivered, undelivered, call_times)
  select a.tenant_id, s.account_id, s.period, s.accepted, s.refused, s.failed, s.delivered, s.undelivered,
    array(select coalesce(t.ns[array_position(t.buckets, b)], 0) from generate_series(0, t.top) b)
  from summed s
  join provider_accounts a on a.id = s.account_id
  left join timed t on t.account_id = s.account_id and t.period = s.period
  where exists (select from tenants x where x.id = a.tenant_id and x.status <> 'deleting')
  on conflict (tenant_id, account_id, period) do update set
    accepted = c.accepted + excluded.accepted, refused = c.refused + excluded.refused, failed = c.failed + excluded.failed,
    delivered = c.delivered + excluded.delivered, undelivered = c.undelivered + excluded.undelivered,
    call_times = array(
      select coalesce(c.call_times[b], 0) + coalesce(excluded.call_times[b], 0)
      from generate_series(1, greatest(cardinality(c.call_times), cardinality(excluded.call_times))) b);

  -- The one before the last hundred. Found from the newest one, because numbers may jump; nothing before it is read, where an old
  -- snapshot keeps what was deleted.
  delete from usage_passes p where p.id = (select x.id from usage_passes x order by x.id desc offset 100 limit 1);
  insert into usage_passes (from_xid, is_whole) values (
    least(pg_snapshot_xmin(seen), case when not is_whole then (select max(t.xid) from unnest(taken) t) end), is_whole);
  windows := count_finals(taken);
  outcome := case when is_whole then 'counted' else 'more' end;
end $$;

grant execute on function count_usage(integer, integer) to despatch_worker;
