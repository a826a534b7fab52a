-- Ends messages whose record goes with the next partition, held ones among them: what waits that long is told as expired,
-- and does not vanish. Run well before the partition is dropped. Returns how many.
create or replace function end_outlived(most integer) returns integer
language sql security definer set search_path = despatch, pg_temp as $$
  select count(*)::integer from end_live(
    array(select l.seq from live_messages l
      where l.purge_on <= (now() at time zone 'UTC')::date + 1 and l.status in ('queued', 'deferred', 'held') limit most),
    '{queued,deferred,held}', 'expired', '{"class": "expired", "code": "retention_over", "retryable": false}')
$$;

grant execute on function end_outlived(integer) to despatch_worker;
