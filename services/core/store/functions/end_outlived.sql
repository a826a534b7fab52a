-- Ends messages whose record goes with the next partition, so that none of them vanishes: `canceled`, which any that waits
-- may become, a held one among them. It is not `expired`: its own time may not be over. Run well before the partition is
-- dropped. Returns how many.
create or replace function end_outlived(most integer) returns integer
language sql security definer set search_path = despatch, pg_temp as $$
  select count(*)::integer from move_messages(
    array(select l.seq from live_messages l
      where l.purge_on <= (now() at time zone 'UTC')::date + 1 and l.status <> 'sending' limit most),
    'canceled', '{"class": "expired", "code": "retention_over", "retryable": false}')
$$;

grant execute on function end_outlived(integer) to despatch_worker;
