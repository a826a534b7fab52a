create or replace function load_accounts(ids uuid[])
returns table (id uuid, tenant_id uuid, provider text, config_public json, ciphertext text, secret_version integer,
  version integer, status text)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select p.id, p.tenant_id, p.provider, p.config_public, p.ciphertext, p.secret_version, p.version, p.status
  from provider_accounts p where p.id = any (ids) and p.status <> 'deleted'
$$;

-- Tests break this (mutant: worker-function): only workers read the secrets of all tenants.
grant execute on function load_accounts(uuid[]) to despatch_worker;
