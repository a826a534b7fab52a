-- Returns the stored facts of the tenant with this slug; no row if there is none.
create or replace function managed_tenant(of_slug text)
returns table (id uuid, plan text, status text, suspension_reason text, suspended_by text, owner_uid text,
  owner_ref text, owner_created_at timestamptz, owner_generation bigint, owner_plan_uid text,
  owner_plan_generation bigint, owner_display_name text, owner_named_owners jsonb, limits jsonb, overrides jsonb)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select t.id, t.plan, t.status, t.suspension_reason, t.suspended_by, t.owner_uid, t.owner_ref,
    t.owner_created_at, t.owner_generation, t.owner_plan_uid, t.owner_plan_generation, t.owner_display_name,
    t.owner_named_owners, l.limits, l.overrides
  from tenants t left join tenant_limits l on l.tenant_id = t.id
  where t.slug = of_slug
$$;

grant execute on function managed_tenant(text) to despatch_controller;
