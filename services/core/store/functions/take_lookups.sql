-- Claims messages to look up, of the accounts that have waited longest for their turn: of up to `accounts_most` accounts that
-- answer, and one message each of up to `failing_most` accounts that failed last time. `paces`: {provider, most}: the providers
-- that can be asked, and how many questions an account gets at once. The questions and the accounts' turns are leased to the
-- caller for `lease_ms`, and are claimed again if not settled by then: one worker at a time asks an account.
create or replace function take_lookups(accounts_most integer, failing_most integer, paces json, lease_ms integer)
returns table (
  seq bigint, purge_on date, tenant_id uuid, account_id uuid, account_version integer, provider text, message_id uuid,
  status text, provider_message_id text, age_ms bigint, asks smallint, failures smallint, turn integer)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  at_now timestamptz := clock_timestamp();
  lease interval := make_interval(secs => lease_ms / 1000.0);
  askable text[];
  turns uuid[];
  mosts integer[];
  taken bigint[];
begin
  select array_agg(p.provider) into askable from json_to_recordset(paces) as p (provider text, most integer);
  -- Locked rows are skipped, so that two workers never have the turn of one account.
  select array_agg(t.account_id), array_agg(t.most) into turns, mosts from (
    select a.account_id, p.most from (
      select x.account_id, x.provider from lookup_turns x
      where x.failures = 0 and x.next_at <= at_now and x.provider = any (askable)
      order by x.next_at limit accounts_most for update skip locked
    ) a
    join json_to_recordset(paces) as p (provider text, most integer) on p.provider = a.provider
    union all
    select f.account_id, 1 from (
      select x.account_id from lookup_turns x
      where x.failures > 0 and x.next_at <= at_now and x.provider = any (askable)
      order by x.next_at limit failing_most for update skip locked
    ) f
  ) t;
  if turns is null then
    return;
  end if;
  with due as (
    select d.seq, u.most, coalesce(s.status, '') in ('sent', 'unknown') as is_silent,
      row_number() over (partition by u.account_id, coalesce(s.status, '') in ('sent', 'unknown') order by d.ask_at) as nth
    from unnest(turns, mosts) as u (account_id, most)
    cross join lateral (
      -- More than are asked: receipts that were late by hours leave many that need not be asked any more.
      select l.seq, l.purge_on, l.ask_at from lookups l where l.account_id = u.account_id and l.ask_at <= at_now
      order by l.ask_at limit greatest(u.most, 500)
    ) d
    left join lateral (
      select x.status from message_results x where x.seq = d.seq and x.purge_on = d.purge_on
    ) s on true
  ), locked as materialized (
    -- Rows that stay as they are get no lock, because a lock is written too.
    select l.seq, d.is_silent from due d join lookups l on l.seq = d.seq
    where (d.nth <= d.most or not d.is_silent) and l.ask_at <= at_now for update of l skip locked
  ), gone as (
    -- A receipt has arrived meanwhile.
    delete from lookups l using locked k where l.seq = k.seq and not k.is_silent
  ), asked as (
    update lookups l set ask_at = at_now + lease, asks = least(l.asks + 1, 32000)
    from locked k where l.seq = k.seq and k.is_silent
    returning l.seq
  )
  select coalesce(array_agg(a.seq), '{}') into taken from asked a;
  update lookup_turns t set turn = t.turn + 1,
    open_at = case when n.is_asked then at_now + lease else t.open_at end,
    next_at = case when n.is_asked then at_now + lease else greatest(t.open_at, n.due_at) end
  from (
    select u.account_id,
      exists (select from lookups l where l.seq = any (taken) and l.account_id = u.account_id) as is_asked,
      coalesce((select min(l.ask_at) from lookups l where l.account_id = u.account_id), 'infinity') as due_at
    from unnest(turns) as u (account_id)
  ) n
  where t.account_id = n.account_id;
  delete from lookup_turns t where t.account_id = any (turns)
    and not exists (select from lookups l where l.account_id = t.account_id);
  return query
    select l.seq, l.purge_on, l.tenant_id, l.account_id, p.version, s.provider, m.id, s.status, s.provider_message_id,
      floor(extract(epoch from at_now - l.since) * 1000)::bigint, l.asks, t.failures, t.turn
    from unnest(taken) as u (seq)
    join lookups l on l.seq = u.seq
    join messages m on m.seq = l.seq and m.purge_on = l.purge_on
    join message_results s on s.seq = l.seq and s.purge_on = l.purge_on
    join lookup_turns t on t.account_id = l.account_id
    left join provider_accounts p on p.id = l.account_id and p.status <> 'deleted';
end $$;

grant execute on function take_lookups(integer, integer, json, integer) to despatch_worker;
