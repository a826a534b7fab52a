-- Stores the content of a message of the transaction's tenant before the message is accepted, so that a large content never
-- delays a batch.
create or replace function store_content(of_message bigint, of_purge date, of_content text) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  insert into unsettled_contents (message_seq, purge_on, tenant_id) values (of_message, of_purge, current_tenant());
  insert into message_contents (message_seq, purge_on, tenant_id, content)
  values (of_message, of_purge, current_tenant(), of_content);
$$;

grant execute on function store_content(bigint, date, text) to despatch_api;
