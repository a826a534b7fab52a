-- Returns a tenant's scheduled messages whose instant has come, higher priorities first, and within a priority those due longest.
-- Takes no lock. `due_from`: the last look showed that none is due earlier; the search starts there and does not scan past dead
-- index entries of messages that were moved since.
create or replace function find_scheduled_due(for_tenant uuid, most integer, due_from timestamptz) returns setof waiting_message
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
begin
  return query select w.* from waiting_message w where w.seq = any (array(
    select y.seq
    from (
      select p.id from provider_accounts p where p.tenant_id = for_tenant and p.emptied_at is null
      -- The lane of simulators.
      union all select '00000000-0000-0000-0000-000000000000'
    ) a,
    (values (3::smallint), (4::smallint), (5::smallint)) as p (priority),
    lateral (
      select l.seq, l.due_at from live_messages l
      where l.tenant_id = for_tenant and l.account_id = a.id and l.priority = p.priority
        and l.due_at >= due_from and l.due_at <= at_now and l.status = 'scheduled'
      order by l.due_at limit most
    ) y order by p.priority, y.due_at limit most));
end $$;

grant execute on function find_scheduled_due(uuid, integer, timestamptz) to despatch_worker;
