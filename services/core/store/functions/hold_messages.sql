-- Puts messages that wait for a call aside, as their tenant is suspended. Returns those that were still waiting.
create or replace function hold_messages(seqs bigint[]) returns setof bigint
language sql security definer set search_path = despatch, pg_temp as $$
  with held as (
    update live_messages l
    set status = 'held', held_from = l.status, held_at = clock_timestamp(), due_at = 'infinity', updated_at = clock_timestamp()
    from (select x.seq from live_messages x where x.seq = any (seqs) order by x.seq for update) locked
    where l.seq = locked.seq and l.status in ('queued', 'deferred')
    returning l.seq, l.purge_on, l.tenant_id
  ), logged as (
    insert into event_log (message_seq, purge_on, tenant_id, type, source, at)
    select h.seq, h.purge_on, h.tenant_id, 'message.held', 'system', clock_timestamp() from held h
  )
  select seq from held
$$;

grant execute on function hold_messages(bigint[]) to despatch_worker;
