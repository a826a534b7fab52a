-- Erases the content of a message of the transaction's tenant for which no provider will be called any more, wherever it is
-- stored. Returns `erased`, or `empty` if there was none, or `live` if the message may still be sent: the content is then left
-- alone, because a worker may be about to read it.
create or replace function erase_content(of_message bigint, of_purge date) returns text
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  emptied integer;
begin
  -- A message that waits for its receipt may go on to another account: this waits for a transaction that has locked its result.
  perform from message_results s where s.seq = of_message and s.purge_on = of_purge and s.tenant_id = current_tenant() for update;
  if exists (select from live_messages l where l.seq = of_message) then
    return 'live';
  end if;
  update messages m set content = null
  where m.seq = of_message and m.purge_on = of_purge and m.tenant_id = current_tenant() and m.content is not null;
  get diagnostics emptied = row_count;
  delete from message_contents c
  where c.message_seq = of_message and c.purge_on = of_purge and c.tenant_id = current_tenant();
  return case when emptied > 0 then 'erased' else 'empty' end;
end $$;

grant execute on function erase_content(bigint, date) to despatch_api;
