-- Gives a key a new secret; the old one stays valid until `until`, or ends at once if that is null. The hashes of the latest
-- former secrets are kept, so that a caller who still uses one is told why it is refused.
create or replace function replace_api_key_secret(of_tenant uuid, of_key uuid, new_hash bytea, until timestamptz) returns boolean
language sql security definer set search_path = despatch, pg_temp as $$
  with replaced as (
    update api_keys k set
      secret_hash = new_hash,
      previous_secret_hash = k.secret_hash,
      former_secret_hashes = (array_remove(array[k.previous_secret_hash], null) || k.former_secret_hashes)[1:8],
      grace_until = until
    where k.id = of_key and k.tenant_id = of_tenant and of_tenant = current_tenant() and k.revoked_at is null
    returning 1
  )
  select exists (select from replaced)
$$;

grant execute on function replace_api_key_secret(uuid, uuid, bytea, timestamptz) to despatch_api;
