-- Deletes the contents of refused messages of the transaction's tenant. The content of an accepted message stays.
create or replace function forget_contents(of_messages bigint[]) returns void
language sql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  with refused as (
    delete from unsettled_contents u where u.message_seq = any (of_messages) and u.tenant_id = current_tenant()
      and not exists (select from messages m where m.seq = u.message_seq and m.purge_on = u.purge_on)
    returning u.message_seq, u.purge_on
  )
  delete from message_contents c using refused r where c.message_seq = r.message_seq and c.purge_on = r.purge_on
$$;

grant execute on function forget_contents(bigint[]) to despatch_api;
