-- Ends messages whose record goes with the next partition, so that none of them vanishes: `canceled`, which any that waits
-- may become, a held one among them; what a provider has accepted before is `sent` again. It is not `expired`: its own time may not be over. Run well before the partition is
-- dropped. Returns how many.
create or replace function end_outlived(most integer) returns integer
language sql security definer set search_path = despatch, pg_temp as $$
  with waiting as materialized (
    select l.seq, l.sent_attempt is not null as is_sent from live_messages l
    where l.purge_on <= (now() at time zone 'UTC')::date + 1 and l.status <> 'sending' limit most
  )
  select (select count(*) from move_messages(array(select w.seq from waiting w where not w.is_sent),
      'canceled', '{"class": "expired", "code": "retention_over", "retryable": false}'))::integer
    + (select count(*) from move_messages(array(select w.seq from waiting w where w.is_sent), 'sent', '{"why": "expired"}', 'no_other_account'))::integer
$$;

grant execute on function end_outlived(integer) to despatch_worker;
