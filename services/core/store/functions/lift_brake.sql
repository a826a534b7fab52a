-- Lifts the brakes of the transaction's tenant, of one channel or of all, and restarts their rates: messages that became final
-- before no longer count, nor do later reports about them. Writes an event for each. Returns the channels and levels that were lifted.
create or replace function lift_brake(of_tenant uuid, of_channel text) returns table (channel text, level text)
language plpgsql security definer set search_path = despatch, pg_temp as $$
#variable_conflict use_column
declare
  lifted brakes;
begin
  -- Tests break this (mutant: brake-tenant): the function acts on the transaction's tenant only.
  if of_tenant is distinct from current_tenant() then return; end if;
  -- Excludes a concurrent usage pass, which would write back the window that it has read.
  perform pg_advisory_xact_lock(hashtext('despatch.usage'));
  for lifted in
    select b.* from brakes b
    where b.tenant_id = of_tenant and b.channel = coalesce(of_channel, b.channel) and b.level is not null
    order by b.channel for update
  loop
    update brakes b set level = null, lifted_at = clock_timestamp() where b.tenant_id = of_tenant and b.channel = lifted.channel;
    perform restart_rates(of_tenant, lifted.channel);
    perform note_tenant_event(of_tenant, 'tenant.brake_lifted', jsonb_build_object('channel', lifted.channel, 'level', lifted.level,
      'reason', lifted.reason, 'rate', lifted.rate, 'bound', lifted.bound));
    return query select lifted.channel, lifted.level;
  end loop;
end $$;

grant execute on function lift_brake(uuid, text) to despatch_api;
