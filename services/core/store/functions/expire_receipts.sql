-- Gives up waiting for receipts that never came. Returns how many.
create or replace function expire_receipts(most integer) returns integer
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  quiet awaited_receipts[];
begin
  with given_up as (
    delete from awaited_receipts a where a.seq = any (array(
      select x.seq from awaited_receipts x where x.due_at <= at_now order by x.due_at limit most for update skip locked))
    returning a
  )
  select array_agg(g.a) into quiet from given_up g;
  with moved as (
    update message_results s set status = 'unknown', reason = 'receipt_timeout', updated_at = at_now
    from unnest(quiet) q where s.seq = q.seq and s.purge_on = q.purge_on and may_move(s.status, 'unknown')
    returning s.seq, s.purge_on, s.tenant_id
  )
  insert into event_log (message_seq, purge_on, tenant_id, type, source, details, at)
  select m.seq, m.purge_on, m.tenant_id, 'message.unknown', 'worker', '{"reason": "receipt_timeout"}', at_now from moved m;
  return coalesce(cardinality(quiet), 0);
end $$;

grant execute on function expire_receipts(integer) to despatch_worker;
