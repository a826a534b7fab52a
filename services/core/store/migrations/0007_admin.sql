-- Changes of credentials. The api may write a ciphertext or a key's hash and may not read one, so moving the current one
-- to "previous" is done here, for the tenant of the transaction alone.

-- Puts a new secret in place, as yet unverified; the old ciphertext is kept for `keep`. Nothing where the account is not
-- the tenant's or is deleted.
create function replace_provider_secret(of_tenant uuid, of_provider uuid, new_ciphertext text, keep interval)
returns table (secret_version integer, rotated_at timestamptz)
language sql security definer set search_path = despatch, pg_temp as $$
  update providers p set
    ciphertext = new_ciphertext,
    previous_ciphertext = p.ciphertext,
    previous_until = now() + keep,
    secret_version = p.secret_version + 1,
    version = p.version + 1,
    updated_at = now()
  where p.id = of_provider and p.tenant_id = of_tenant and of_tenant = current_tenant() and p.status <> 'deleted'
  returning p.secret_version, p.updated_at
$$;

-- Gives a key a new secret; the old one is good until `until`, or for nothing from now on where that is null. Its hash
-- stays until the next rotation, so that who goes on using it can be told why it is refused.
create function replace_api_key_secret(of_tenant uuid, of_key uuid, new_hash bytea, until timestamptz) returns boolean
language sql security definer set search_path = despatch, pg_temp as $$
  with replaced as (
    update api_keys k set
      secret_hash = new_hash,
      previous_secret_hash = k.secret_hash,
      grace_until = until
    where k.id = of_key and k.tenant_id = of_tenant and of_tenant = current_tenant() and k.revoked_at is null
    returning 1
  )
  select exists (select from replaced)
$$;

-- Drops the replaced ciphertexts that have been kept long enough. Returns the number of rows.
create function forget_replaced_secrets() returns integer
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  accounts integer;
begin
  update providers set previous_ciphertext = null, previous_until = null where previous_until <= now();
  get diagnostics accounts = row_count;
  return accounts;
end $$;

create index providers_replaced on providers (previous_until) where previous_until is not null;
create index members_list on members (tenant_id, created_at desc, user_id desc);

revoke all on function replace_provider_secret(uuid, uuid, text, interval),
  replace_api_key_secret(uuid, uuid, bytea, timestamptz), forget_replaced_secrets() from public;
grant execute on function replace_provider_secret(uuid, uuid, text, interval),
  replace_api_key_secret(uuid, uuid, bytea, timestamptz) to despatch_api;
grant execute on function forget_replaced_secrets() to despatch_worker;
