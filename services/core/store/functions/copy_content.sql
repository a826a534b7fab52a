-- Copies the content of a message of the transaction's tenant for another message that is about to be accepted, as
-- `store_content` does, without moving it out of the database. Returns false if the content no longer exists.
create or replace function copy_content(of_message bigint, of_purge date, to_message bigint, to_purge date) returns boolean
language sql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  with copied as (
    insert into message_contents (message_seq, purge_on, tenant_id, content)
    select to_message, to_purge, c.tenant_id, c.content from message_contents c
    where c.message_seq = of_message and c.purge_on = of_purge and c.tenant_id = current_tenant()
    returning tenant_id
  ), unsettled as (
    insert into unsettled_contents (message_seq, purge_on, tenant_id) select to_message, to_purge, c.tenant_id from copied c
  )
  select exists (select from copied)
$$;

grant execute on function copy_content(bigint, date, bigint, date) to despatch_api;
