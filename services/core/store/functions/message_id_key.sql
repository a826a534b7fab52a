-- Returns the key that encrypts places in message ids.
create or replace function message_id_key() returns bytea
language sql stable security definer set search_path = despatch, pg_temp as $$
  select key from message_id_key
$$;

grant execute on function message_id_key() to despatch_api, despatch_worker;
