create or replace function load_accounts(ids uuid[])
returns table (id uuid, tenant_id uuid, provider text, config_public json, ciphertext text, secret_version integer,
  previous_ciphertext text, previous_until timestamptz, version integer, status text, receipt_version integer,
  has_reported boolean)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select p.id, p.tenant_id, p.provider, p.config_public, p.ciphertext, p.secret_version,
    p.previous_ciphertext, p.previous_until, p.version, p.status, p.receipt_version,
    p.reported_at is not null
  from provider_accounts p where p.id = any (ids) and p.status <> 'deleted'
$$;

-- Tests break this (mutant: worker-function): only workers read the secrets of all tenants.
grant execute on function load_accounts(uuid[]) to despatch_worker;
