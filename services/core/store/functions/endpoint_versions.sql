-- Returns the versions of endpoints; deleted ones, and those of a tenant that is being deleted, have no row.
create or replace function endpoint_versions(ids uuid[]) returns table (id uuid, version integer)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select w.id, w.version from webhook_endpoints w
  join tenants t on t.id = w.tenant_id and t.status in ('active', 'suspended')
  where w.id = any (ids) and w.deleted_at is null
$$;

grant execute on function endpoint_versions(uuid[]) to despatch_worker;
