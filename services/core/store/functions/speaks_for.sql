-- Whether a resource may speak for a tenant: it has the namespace and name that declared it, and is not older than what
-- has spoken before. Creation times are whole seconds: of two in one, the other one is the newer.
create or replace function speaks_for(t tenants, uid text, ref text, created timestamptz, generation bigint) returns boolean
language sql immutable as $$
  select t.owner_ref = ref
    and (t.owner_created_at < created
      or (t.owner_created_at = created and (t.owner_uid is distinct from uid or t.owner_generation <= generation)))
$$;
