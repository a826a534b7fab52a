-- Creates a tenant with its limits and first owner. Returns no row if the slug is taken.
create or replace function create_tenant(new_id uuid, new_slug text, new_name text, of_plan text, of_limits jsonb, owner uuid)
returns setof tenant_facts
language plpgsql security definer set search_path = despatch, pg_temp as $$
begin
  insert into tenants (id, slug, name, plan, created_by) values (new_id, new_slug, new_name, of_plan, owner)
  on conflict (slug) do nothing;
  if not found then
    return;
  end if;
  insert into tenant_limits (tenant_id, plan, limits) values (new_id, of_plan, of_limits);
  perform begin_counters(new_id);
  if owner is not null then
    insert into members (tenant_id, user_id, role, email_known) values (new_id, owner, 'owner', true);
  end if;
  return query select * from tenant_facts t where t.id = new_id;
end $$;

grant execute on function create_tenant(uuid, text, text, text, jsonb, uuid) to despatch_api;
