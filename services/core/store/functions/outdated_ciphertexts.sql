-- Ciphertexts under older versions of the tenant's key than `latest`. They are of no use without Vault.
create or replace function outdated_ciphertexts(of_tenant uuid, latest integer, most integer)
returns table (account_id uuid, ciphertext text)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select p.id, c.text from provider_accounts p cross join lateral (values (p.ciphertext), (p.previous_ciphertext)) as c (text)
  where p.tenant_id = of_tenant and c.text like 'vault:v%' and c.text not like 'vault:v' || latest || ':%'
  limit most
$$;

grant execute on function outdated_ciphertexts(uuid, integer, integer) to despatch_controller;
