-- Whether a resource may change a tenant: it has the namespace and name that declared the tenant, and is not older than the state
-- applied last. Creation times are whole seconds: of two resources created in the same second, the one that is not the current
-- owner counts as the newer.
create or replace function speaks_for(t tenants, uid text, ref text, created timestamptz, generation bigint) returns boolean
language sql immutable as $$
  select t.owner_ref = ref
    and (t.owner_created_at < created
      or (t.owner_created_at = created and (t.owner_uid is distinct from uid or t.owner_generation <= generation)))
$$;
