-- Messages to ask their providers about, of the accounts that have waited longest for their turn, `account_most` of each.
-- They belong to the caller for `lease_ms`, and come again then where they were not settled. Until `spacing_ms` for each
-- of its questions have passed, nobody asks the account anything: its rate cap, over all workers.
create or replace function take_lookups(accounts_most integer, account_most integer, lease_ms integer, spacing_ms integer)
returns table (
  seq bigint, purge_on date, tenant_id uuid, account_id uuid, account_version integer, provider text, message_id uuid,
  provider_message_id text, age_ms bigint, asks smallint, failures smallint)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  at_now timestamptz := clock_timestamp();
  turns uuid[];
  taken bigint[];
  takers uuid[];
begin
  -- Two workers never have the turn of one account.
  select array_agg(t.account_id) into turns from (
    select x.account_id from lookup_turns x where x.next_at <= at_now
    order by x.next_at limit accounts_most for update skip locked
  ) t;
  if turns is null then
    return;
  end if;
  with due as materialized (
    select d.seq, s.status from unnest(turns) as u (account_id)
    cross join lateral (
      select l.seq, l.purge_on from lookups l where l.account_id = u.account_id and l.ask_at <= at_now
      order by l.ask_at limit account_most for update skip locked
    ) d
    left join lateral (
      select x.status from message_results x where x.seq = d.seq and x.purge_on = d.purge_on
    ) s on true
  ), gone as (
    -- A receipt has come meanwhile.
    delete from lookups l using due d where l.seq = d.seq and coalesce(d.status, '') not in ('sent', 'unknown')
  ), asked as (
    update lookups l set ask_at = at_now + make_interval(secs => lease_ms / 1000.0), asks = least(l.asks + 1, 32000)
    from due d where l.seq = d.seq and d.status in ('sent', 'unknown')
    returning l.seq, l.account_id
  )
  select array_agg(a.seq), array_agg(a.account_id) into taken, takers from asked a;
  update lookup_turns t set
    open_at = at_now + make_interval(secs => n.asked * spacing_ms / 1000.0),
    next_at = greatest(at_now + make_interval(secs => n.asked * spacing_ms / 1000.0), n.due_at)
  from (
    select u.account_id,
      (select count(*) from unnest(takers) as x (account_id) where x.account_id = u.account_id) as asked,
      coalesce((select min(l.ask_at) from lookups l where l.account_id = u.account_id), 'infinity') as due_at
    from unnest(turns) as u (account_id)
  ) n
  where t.account_id = n.account_id;
  delete from lookup_turns t where t.account_id = any (turns)
    and not exists (select from lookups l where l.account_id = t.account_id);
  return query
    select l.seq, l.purge_on, l.tenant_id, l.account_id, p.version, s.provider, m.id, s.provider_message_id,
      floor(extract(epoch from at_now - l.since) * 1000)::bigint, l.asks, t.failures
    from unnest(taken) as u (seq)
    join lookups l on l.seq = u.seq
    join messages m on m.seq = l.seq and m.purge_on = l.purge_on
    join message_results s on s.seq = l.seq and s.purge_on = l.purge_on
    join lookup_turns t on t.account_id = l.account_id
    left join provider_accounts p on p.id = l.account_id and p.status <> 'deleted';
end $$;

grant execute on function take_lookups(integer, integer, integer, integer) to despatch_worker;
