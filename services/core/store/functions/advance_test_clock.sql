-- Advances the test clock of the transaction's tenant, and moves what its test messages wait for forward by the same time:
-- scheduled instants and retries with their expiry, and receipts. No message is moved beyond its next step: it becomes due at
-- once, and later times count from then. Messages of live keys are not affected: they are in lanes of accounts, and none of them
-- is `test`. Raises DS003 if more than `most` messages wait.
-- Returns by how much the clock is ahead, and how many messages were moved: a wait that is over does not become shorter.
create or replace function advance_test_clock(by_ms bigint, most integer) returns table (ahead_ms bigint, moved integer)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  who uuid := current_tenant();
  by_time interval := make_interval(secs => by_ms / 1000.0);
  ahead bigint;
  waiting bigint[];
  awaited bigint[];
  at_now timestamptz;
  moved_live integer;
  moved_awaited integer;
begin
  -- Locks the tenant's row, so that concurrent calls for the same clock wait here.
  update tenants t set test_clock_ms = t.test_clock_ms + by_ms where t.id = who returning t.test_clock_ms into ahead;
  waiting := array(select l.seq from live_messages l
    where l.tenant_id = who and l.account_id = '00000000-0000-0000-0000-000000000000'
      -- Messages of live keys keep their times, so each statement checks `test` again.
      and l.test and l.status in ('scheduled', 'deferred') limit most + 1);
  awaited := array(select a.seq from awaited_receipts a where a.tenant_id = who and a.test limit most + 1);
  if cardinality(waiting) + cardinality(awaited) > most then
    raise exception 'too many test messages wait' using errcode = 'DS003';
  end if;
  -- In the order in which other transactions lock the same rows, to avoid deadlocks.
  perform from live_messages l where l.seq = any (waiting) and l.test order by l.seq for update;
  at_now := clock_timestamp();
  update live_messages l
  set next_attempt_at = l.next_attempt_at - s.by_time, expires_at = l.expires_at - s.by_time,
    -- Never in the past: a search starts at the earliest due time that the last look found, and would miss the message.
    due_at = greatest(l.due_at - s.by_time, at_now)
  from (
    select x.seq, case when x.next_attempt_at < x.expires_at
      then least(by_time, greatest(x.next_attempt_at - at_now, interval '0')) else by_time end as by_time
    from live_messages x where x.seq = any (waiting)
  ) s
  where l.seq = s.seq and l.test and l.status in ('scheduled', 'deferred') and s.by_time > interval '0';
  get diagnostics moved_live = row_count;
  -- A locked row is skipped: the transaction that holds its lock ends the wait.
  update awaited_receipts a set due_at = a.due_at - by_time
  where a.test and by_time > interval '0' and a.due_at > at_now and a.seq = any (array(
    select x.seq from awaited_receipts x where x.seq = any (awaited) and x.test order by x.seq for update skip locked));
  get diagnostics moved_awaited = row_count;
  return query select ahead, moved_live + moved_awaited;
end $$;

grant execute on function advance_test_clock(bigint, integer) to despatch_api;
