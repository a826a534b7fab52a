-- Reserves 1,024 message numbers starting at `first_seq`, and returns this server's time: retention is computed from it and not
-- from an api's clock.
create or replace function reserve_message_seqs() returns table (first_seq bigint, now timestamptz)
language sql security definer set search_path = despatch, pg_temp as $$
  select nextval('message_blocks') * 1024, clock_timestamp()
$$;

grant execute on function reserve_message_seqs() to despatch_api;
