-- Returns for how long the tenant that was deleted first has been `deleting`; 0 if there is none. Its row does not change during
-- the purge.
create or replace function oldest_deletion_seconds() returns double precision
language sql stable security definer set search_path = despatch, pg_temp as $$
  select coalesce(extract(epoch from clock_timestamp() - min(t.updated_at)), 0) from tenants t where t.status = 'deleting'
$$;

grant execute on function oldest_deletion_seconds() to despatch_worker;
