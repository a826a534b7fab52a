-- Moves waiting messages to the lanes of other accounts, with a due time no earlier than now (`due_floor`), and writes an event
-- for each. `moves`: {seq, from, to, details}. Skips a message that has left the account `from`, was claimed or has ended, and one
-- of which a call got no answer since it was read: another account must not send what this one may have accepted.
-- Returns the messages that were moved.
create or replace function assign_accounts(moves json) returns setof bigint
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz;
  seqs bigint[] := array(select m.seq from json_to_recordset(moves) as m (seq bigint));
  moved_seqs bigint[];
  days date[];
  tenants uuid[];
  event_seqs bigint[];
begin
  -- In the order in which other transactions lock the same rows, to avoid deadlocks.
  perform from live_messages l where l.seq = any (seqs) and l.status in ('queued', 'deferred') order by l.seq for update;
  -- After the locks, because acquiring them may take time.
  at_now := clock_timestamp();
  with moved as (
    update live_messages l
    set account_id = m."to",
      -- Shown in the message's record, which names no provider before the first call.
      provider = case when l.attempt > 0 then (select p.provider from provider_accounts p where p.id = m."to") end,
      due_at = greatest(l.due_at, at_now), updated_at = at_now, reason = 'failed_over',
      reassigned = l.reassigned + 1
    from json_to_recordset(moves) as m (seq bigint, "from" uuid, "to" uuid, details jsonb)
    -- A message is not moved while a call is under way, and not twice.
    where l.seq = any (seqs) and l.seq = any (array[m.seq]) and l.status in ('queued', 'deferred') and l.account_id = m."from"
      and l.ambiguous = 0 and (select true from provider_accounts p where p.id = m."to" and p.tenant_id = l.tenant_id)
    returning l.seq, l.purge_on, l.tenant_id, m.details
  ), told as (
    insert into event_log (message_seq, purge_on, tenant_id, type, source, details, at)
    select m.seq, m.purge_on, m.tenant_id, 'message.failed_over', 'worker', m.details, at_now from moved m
    returning tenant_id, message_seq, purge_on, event_seq
  )
  select array_agg(t.tenant_id), array_agg(t.message_seq), array_agg(t.purge_on), array_agg(t.event_seq)
  into tenants, moved_seqs, days, event_seqs from told t;
  perform note_changes(tenants, moved_seqs, days, event_seqs);
  return query select unnest(moved_seqs);
end $$;

grant execute on function assign_accounts(json) to despatch_worker;
