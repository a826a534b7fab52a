-- Puts aside a suspended tenant's waiting messages, up to `most` a call. Returns how many.
create or replace function hold_tenant(for_tenant uuid, most integer) returns integer
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
begin
  if not exists (select from tenants where id = for_tenant and status = 'suspended') then
    return 0;
  end if;
  return (select count(*) from move_messages(array(
    select l.seq from live_messages l
    where l.tenant_id = for_tenant and l.due_at < 'infinity' and may_move(l.status, 'held') limit most),
    'held', null));
end $$;

grant execute on function hold_tenant(uuid, integer) to despatch_worker;
