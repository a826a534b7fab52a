-- Returns the facts about tenants that the scheduler needs.
create or replace function tenant_limits_of(ids uuid[]) returns table (tenant_id uuid, status text, plan text, limits jsonb)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select t.id, t.status, t.plan, l.limits from tenants t left join tenant_limits l on l.tenant_id = t.id
  where t.id = any (ids)
$$;

grant execute on function tenant_limits_of(uuid[]) to despatch_worker;
