create or replace function find_tenant(by_id uuid, by_slug text) returns setof tenant_facts
language sql stable security definer set search_path = despatch, pg_temp as $$
  select * from tenant_facts t where t.id = by_id or t.slug = by_slug
$$;

grant execute on function find_tenant(uuid, text) to despatch_api;
