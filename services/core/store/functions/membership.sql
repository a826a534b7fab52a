create or replace function membership(of_user uuid, of_slug text)
returns table (facts tenant_facts, role text)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select t, m.role from members m join tenant_facts t on t.id = m.tenant_id
  where m.user_id = of_user and t.slug = of_slug
$$;

grant execute on function membership(uuid, text) to despatch_api;
