-- Stores a new secret, not verified yet; the old ciphertext is kept for `keep`. Returns no row if the account belongs to another
-- tenant or is deleted.
create or replace function replace_account_secret(of_tenant uuid, of_account uuid, new_ciphertext text, keep interval)
returns table (secret_version integer, rotated_at timestamptz)
language sql security definer set search_path = despatch, pg_temp as $$
  update provider_accounts p set
    ciphertext = new_ciphertext,
    previous_ciphertext = p.ciphertext,
    previous_until = now() + keep,
    secret_version = p.secret_version + 1,
    version = p.version + 1,
    updated_at = now()
  where p.id = of_account and p.tenant_id = of_tenant and of_tenant = current_tenant() and p.status <> 'deleted'
  returning p.secret_version, p.updated_at
$$;

grant execute on function replace_account_secret(uuid, uuid, text, interval) to despatch_api;
