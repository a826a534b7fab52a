-- Ends messages whose record will be dropped with the next partition, so that no message vanishes without an end: as `canceled`,
-- which every waiting message may become, held ones included; a message that a provider has accepted returns to `sent`. Not as
-- `expired`, because the message's own expiry may not have passed. Runs well before the partition is dropped. Returns how many
-- messages it ended.
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
