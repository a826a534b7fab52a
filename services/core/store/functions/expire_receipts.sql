-- Ends the wait for receipts that have not arrived. Messages of providers that can be asked (`askable`: provider ids) go on to
-- `lookups`, and are given up once they are `timeout_ms` old; all others are given up now. Returns the number of rows handled,
-- and `silent`: the given-up messages by account, as [{tenantId, accountId, provider, messages}].
create or replace function expire_receipts(most integer, askable text[], timeout_ms bigint)
returns table (seen integer, silent json)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  due awaited_receipts[];
  outlived lookups[];
  -- Messages that were `unknown` when their waits were locked.
  unproven bigint[];
  asked bigint[];
  given_up json;
  tenants uuid[];
  seqs bigint[];
  days date[];
  numbers bigint[];
begin
  with taken as (
    delete from awaited_receipts a where a.seq = any (array(
      select x.seq from awaited_receipts x where x.due_at <= at_now order by x.due_at limit most for update skip locked))
    returning a
  )
  -- Read in the snapshot of this statement: a receipt that it does not show yet finds the wait locked, and cannot put it off.
  select array_agg(t.a), coalesce(array_agg(s.seq) filter (where s.status = 'unknown'), '{}') into due, unproven
  from taken t left join lateral (
    select x.seq, x.status from message_results x where x.seq = (t.a).seq and x.purge_on = (t.a).purge_on limit 1
  ) s on true;
  with taken as (
    delete from lookups l where l.seq = any (array(
      select x.seq from lookups x where x.until_at <= at_now order by x.until_at limit most for update skip locked))
    returning l
  )
  select array_agg(t.l) into outlived from taken t;
  with asking as (
    insert into lookups (seq, purge_on, tenant_id, account_id, since, ask_at, until_at)
    select d.seq, d.purge_on, d.tenant_id, s.account_id, coalesce(s.sent_at, s.updated_at), at_now,
      -- A message whose wait was found to be over late is still looked up.
      greatest(coalesce(s.sent_at, s.updated_at) + make_interval(secs => timeout_ms / 1000.0), at_now + interval '5 minutes')
    from unnest(due) d join message_results s on s.seq = d.seq and s.purge_on = d.purge_on
    where s.account_id is not null and s.provider = any (askable) and s.status in ('sent', 'unknown')
    on conflict do nothing
    returning seq, purge_on, account_id
  ), turns as (
    insert into lookup_turns as t (account_id, provider, next_at, open_at)
    select distinct a.account_id, s.provider, at_now, at_now
    from asking a join message_results s on s.seq = a.seq and s.purge_on = a.purge_on order by a.account_id
    on conflict (account_id) do update set next_at = greatest(t.open_at, least(t.next_at, excluded.next_at))
  )
  select coalesce(array_agg(a.seq), '{}') into asked from asking a;
  -- In the order in which other transactions lock the same rows, to avoid deadlocks.
  perform from message_results s where (s.seq, s.purge_on) in (
    select d.seq, d.purge_on from unnest(due) d union all select l.seq, l.purge_on from unnest(outlived) l)
  order by s.seq for update;
  -- A receipt that was being applied meanwhile has proved the call, and the next one is awaited.
  insert into awaited_receipts (seq, purge_on, tenant_id, test, due_at)
  select d.seq, d.purge_on, d.tenant_id, d.test, at_now + make_interval(secs => timeout_ms / 1000.0)
  from unnest(due) d join message_results s on s.seq = d.seq and s.purge_on = d.purge_on
  where d.seq = any (unproven) and s.status = 'sent' and not s.final and d.seq <> all (asked);
  with quiet as (
    select d.seq, d.purge_on from unnest(due) d where d.seq <> all (asked) and d.seq <> all (unproven)
      -- A message whose provider is being asked already is given up when its lookups end.
      and (select l.seq from lookups l where l.seq = d.seq limit 1) is null
    union all
    select l.seq, l.purge_on from unnest(outlived) l
    -- A receipt has proved the call since it was asked about, and the next one is awaited.
    where (select a.seq from awaited_receipts a where a.seq = l.seq limit 1) is null
  ), moved as (
    update message_results s set status = 'unknown', reason = 'receipt_timeout', updated_at = at_now
    from quiet q where s.seq = q.seq and s.purge_on = q.purge_on and may_move(s.status, 'unknown')
    returning s.seq, s.purge_on, s.tenant_id, s.account_id, s.provider, old.status as was
  ), noted as (
    insert into usage_moves (at, purge_on, was, became, seqs, account_ids)
    select at_now, m.purge_on, m.was, 'unknown', array_agg(m.seq), array_agg(m.account_id)
    from moved m group by m.purge_on, m.was
  ), told as (
    insert into event_log (message_seq, purge_on, tenant_id, type, source, details, at)
    select m.seq, m.purge_on, m.tenant_id, 'message.unknown', 'worker', '{"reason": "receipt_timeout"}', at_now from moved m
    returning tenant_id, message_seq, purge_on, event_seq
  )
  select json_agg(json_build_object('tenantId', g.tenant_id, 'accountId', g.account_id, 'provider', g.provider, 'messages', g.n)),
    (select array_agg(t.tenant_id) from told t), (select array_agg(t.message_seq) from told t),
    (select array_agg(t.purge_on) from told t), (select array_agg(t.event_seq) from told t)
    into given_up, tenants, seqs, days, numbers
  from (select m.tenant_id, m.account_id, m.provider, count(*) as n from moved m group by 1, 2, 3) g;
  perform note_changes(tenants, seqs, days, numbers);
  return query
    select coalesce(cardinality(due), 0) + coalesce(cardinality(outlived), 0), coalesce(given_up, '[]');
end $$;

grant execute on function expire_receipts(integer, text[], bigint) to despatch_worker;
