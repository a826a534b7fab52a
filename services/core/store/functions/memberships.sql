create or replace function memberships(of_user uuid)
returns table (facts tenant_facts, role text)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select t, m.role from members m join tenant_facts t on t.id = m.tenant_id
  where m.user_id = of_user order by t.slug
$$;

grant execute on function memberships(uuid) to despatch_api;
