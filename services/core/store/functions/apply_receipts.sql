-- Applies receipts that are due. A receipt only raises a message's rank (`may_move`); every one is appended to the event log,
-- applied or not. One that overtook its own attempt's record waits. Returns the number looked at.
create or replace function apply_receipts(most integer) returns integer
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  r receipts;
  s message_results;
  at_now timestamptz;
  applies boolean;
  seen integer := 0;
begin
  for r in select * from receipts where apply_at <= clock_timestamp() order by apply_at limit most for update skip locked loop
    seen := seen + 1;
    at_now := clock_timestamp();
    if exists (select from live_messages l where l.seq = r.message_seq and l.status = 'sending' and l.attempt = r.attempt) then
      update receipts set apply_at = at_now + interval '1 second' where id = r.id;
      continue;
    end if;
    delete from receipts where id = r.id;
    select * into s from message_results x where x.seq = r.message_seq and x.purge_on = r.purge_on for update;
    -- Only the attempt that failed for now may still turn out delivered.
    applies := coalesce(may_move(s.status, r.receipt)
      and (s.status <> 'undelivered' or (s.attempt = r.attempt and not s.final)), false);
    insert into event_log (message_seq, purge_on, tenant_id, type, source, applied, details, at)
    select m.seq, m.purge_on, m.tenant_id, 'message.' || r.receipt, 'receipt', applies,
      jsonb_strip_nulls(jsonb_build_object('attempt', r.attempt, 'failure', r.failure)), at_now
    from messages m where m.seq = r.message_seq and m.purge_on = r.purge_on;
    continue when not applies;
    update message_results x set
      status = r.receipt,
      reason = null,
      failure = case when r.receipt = 'undelivered' then r.failure end,
      final = r.receipt = 'delivered' or (r.receipt = 'undelivered' and not r.temporary),
      sent_at = coalesce(x.sent_at, at_now),
      delivered_at = case when r.receipt = 'delivered' then at_now end,
      completed_at = case when r.receipt = 'sent' then x.completed_at else at_now end,
      updated_at = at_now
    where x.seq = s.seq and x.purge_on = s.purge_on;
    if r.receipt in ('delivered', 'undelivered') then
      delete from awaited_receipts a where a.seq = s.seq;
    end if;
  end loop;
  return seen;
end $$;

grant execute on function apply_receipts(integer) to despatch_worker;
