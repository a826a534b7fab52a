-- Ends messages whose retention is over and whose record is to be dropped, so that no message vanishes without an end: as
-- `canceled`, which every waiting message may become, held ones included; a message that a provider has accepted returns to `sent`.
-- Not as `expired`, because the message's own expiry may not have passed. No partition is dropped before this, nor before readers
-- had time to learn of the end (`outlived_days`, `unsettled_days`). A message with a call under way is left to whoever settles it, and keeps its week's partitions until then (`unsettled_days`).
-- Reads at most `reads_max` messages after number `after_seq` and ends at most `most` of them, because a backlog may be too large
-- to be read by one statement. Returns how many it ended, and the number after which to continue; null at the end.
create or replace function end_outlived(after_seq bigint, reads_max integer, most integer, out ended integer, out next_seq bigint)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  waiting bigint[];
  was_sent bigint[];
  tenants uuid[];
  days date[];
begin
  with looked as materialized (
    select l.seq, l.status, l.purge_on, l.sent_attempt from live_messages l where l.seq > after_seq order by l.seq limit reads_max
  ), found as materialized (
    select l.seq, l.sent_attempt, l.purge_on from looked l
    where l.purge_on <= (now() at time zone 'UTC')::date and l.status <> 'sending' order by l.seq limit most
  )
  select array_agg(f.seq) filter (where f.sent_attempt is null), array_agg(f.seq) filter (where f.sent_attempt is not null),
    case when count(*) >= most then max(f.seq)
      when (select count(*) from looked) >= reads_max then (select max(l.seq) from looked l) end,
    array_agg(distinct f.purge_on)
  into waiting, was_sent, next_seq, days from found f;
  -- Both kinds together, and in the order in which other transactions lock the same rows, to avoid deadlocks: `move_messages` locks
  -- the messages of one kind, and the counters of their tenants, before those of the other.
  select array_agg(distinct x.tenant_id) into tenants from (
    select l.tenant_id from live_messages l where l.seq = any (waiting || was_sent) order by l.seq for update) x;
  if tenants is not null then
    perform lock_counters('finished', tenants);
  end if;
  ended := (select count(*)
      from move_messages(waiting, 'canceled', '{"class": "expired", "code": "retention_over", "retryable": false}'))
    + (select count(*) from move_messages(was_sent, 'sent', '{"why": "expired"}', 'no_other_account'));
  -- After the moves, so that none of them is later.
  insert into outlived_days as o (purge_on, ended_at) select d.day, clock_timestamp() from unnest(days) as d (day) order by d.day
  on conflict (purge_on) do update set ended_at = excluded.ended_at;
  delete from outlived_days o where o.ended_at < now() - interval '1 month';
end $$;

grant execute on function end_outlived(bigint, integer, integer) to despatch_worker;
