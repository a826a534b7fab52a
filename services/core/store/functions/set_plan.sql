-- Moves the transaction's tenant to a plan, and increments the generation of its limits.
create or replace function set_plan(of_tenant uuid, to_plan text, of_limits jsonb) returns void
language plpgsql security definer set search_path = despatch, pg_temp as $$
begin
  update tenants set plan = to_plan, updated_at = now() where id = of_tenant and of_tenant = current_tenant();
  if not found then
    return;
  end if;
  insert into tenant_limits as l (tenant_id, plan, limits) values (of_tenant, to_plan, of_limits)
  on conflict (tenant_id) do update
    set plan = excluded.plan, limits = excluded.limits, generation = l.generation + 1, updated_at = now();
end $$;

grant execute on function set_plan(uuid, text, jsonb) to despatch_api;
