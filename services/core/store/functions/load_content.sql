-- Returns a content that is stored apart from its message; null if it no longer exists.
create or replace function load_content(of_message bigint, of_purge date) returns text
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  select c.content from message_contents c where c.message_seq = of_message and c.purge_on = of_purge
$$;

grant execute on function load_content(bigint, date) to despatch_worker;
