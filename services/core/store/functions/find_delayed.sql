-- Returns messages of a lane that have been due for longer than their route lets them wait for their account: a page of `most`,
-- higher priorities first, and within a priority those due longest. The page starts after the message given by `after_priority`,
-- `after_us` and `after_seq`, so that messages that must stay do not hide others. `is_movable`: whether the message may move to
-- another account at all. `due_us`: since when it is due, in microseconds since the epoch. `due_from`: as for `due_floor`.
create or replace function find_delayed(for_tenant uuid, for_account uuid, most integer, due_from float8[],
  after_priority smallint default null, after_us bigint default null, after_seq bigint default null)
returns table (seq bigint, priority smallint, due_us bigint, is_movable boolean)
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  after_due timestamptz := timestamptz 'epoch' + after_us * interval '1 microsecond';
  max_wait interval := (
    select make_interval(secs => r.max_wait_ms / 1000.0) from provider_accounts p
    join routes r on r.tenant_id = p.tenant_id and r.channel = p.channel and r.replaced_at is null
    where p.id = for_account and p.tenant_id = for_tenant);
begin
  if max_wait is null then
    return;
  end if;
  return query
    select y.seq, y.priority, y.due_us, y.is_movable
    from (values (0::smallint), (1::smallint), (2::smallint)) as p (priority),
    lateral (
      select l.seq, l.priority, (extract(epoch from l.due_at) * 1000000)::bigint as due_us,
        -- 50 moves cover every step of a route; a message that keeps moving between accounts gains nothing.
        not l.pinned and l.ambiguous = 0 and l.reassigned < 50 as is_movable
      from live_messages l
      where l.tenant_id = for_tenant and l.account_id = for_account and l.priority = p.priority
        and l.due_at >= greatest(due_floor(due_from, p.priority), case when p.priority = after_priority then after_due end)
        and l.due_at <= at_now - max_wait
        and (p.priority is distinct from after_priority or (l.due_at, l.seq) > (after_due, after_seq))
        and l.status in ('queued', 'deferred') and l.expires_at > at_now and not l.test
      order by l.due_at, l.seq limit most
    ) y
    where p.priority >= coalesce(after_priority, 0)
    limit most;
end $$;

grant execute on function find_delayed(uuid, uuid, integer, float8[], smallint, bigint, bigint) to despatch_worker;
