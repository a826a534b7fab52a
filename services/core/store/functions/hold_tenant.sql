-- Holds the waiting messages of a suspended tenant, or else those of channels that a brake holds, at most `most` per call. Under
-- a brake, scheduled messages stay scheduled until their instant. Returns how many it held.
create or replace function hold_tenant(for_tenant uuid, most integer) returns integer
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
declare
  at_now timestamptz := clock_timestamp();
begin
  if exists (select from tenants where id = for_tenant and status = 'suspended') then
    return (select count(*) from move_messages(array(
      select l.seq from live_messages l
      where l.tenant_id = for_tenant and l.due_at < 'infinity' and may_move(l.status, 'held') limit most),
      'held', null));
  end if;
  return (select count(*) from move_messages(array(
    select y.seq
    from brakes b join provider_accounts p on p.tenant_id = b.tenant_id and p.channel = b.channel and p.emptied_at is null,
      (values (0::smallint), (1::smallint), (2::smallint), (3::smallint), (4::smallint), (5::smallint)) as q (priority),
    lateral (
      select l.seq from live_messages l
      where l.tenant_id = for_tenant and l.account_id = p.id and l.priority = q.priority
        and l.due_at < case when q.priority < 3 then timestamptz 'infinity' else at_now end and may_move(l.status, 'held')
      limit most
    ) y
    where b.tenant_id = for_tenant and b.level = 'held' limit most),
    'held', null, 'abuse_brake'));
end $$;

grant execute on function hold_tenant(uuid, integer) to despatch_worker;
