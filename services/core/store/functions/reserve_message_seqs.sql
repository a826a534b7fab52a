-- Reserves 1,024 numbers of messages from `first_seq` on, and tells the time here: by it, and not by an api's own clock, is
-- decided for how long a message is kept.
create or replace function reserve_message_seqs() returns table (first_seq bigint, now timestamptz)
language sql security definer set search_path = despatch, pg_temp as $$
  select nextval('message_blocks') * 1024, clock_timestamp()
$$;

grant execute on function reserve_message_seqs() to despatch_api;
