-- Moves a scheduled message of the transaction's tenant to another instant, with its expiry, in the transaction that has locked
-- its row (`lock_schedule`). `shown`: the instant as the message's record shows it, for a test message by the tenant's test
-- clock.
create or replace function store_schedule(of_seq bigint, at_instant timestamptz, until timestamptz, shown timestamptz) returns void
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  day date;
begin
  update live_messages l
  set next_attempt_at = at_instant, expires_at = until, updated_at = at_now,
    -- Never in the past: a search starts at the earliest due time that the last look found, and would miss the message.
    due_at = greatest(at_instant, at_now)
  where l.seq = of_seq and l.tenant_id = current_tenant() and l.status = 'scheduled'
  returning l.purge_on into day;
  update messages m set scheduled_at = shown where m.seq = of_seq and m.purge_on = day;
  insert into event_log (message_seq, purge_on, tenant_id, type, source, details, at)
  select of_seq, day, current_tenant(), 'message.rescheduled', 'api', jsonb_build_object('sendAt', shown), at_now
  where day is not null;
end $$;

grant execute on function store_schedule(bigint, timestamptz, timestamptz, timestamptz) to despatch_api;
