-- Returns what is needed to admit service keys, for many keys in one query: the key, its tenant, the accounts that could send its
-- messages, and the routes that choose among them. Returns no row for an unknown key or a deleted tenant.
create or replace function find_callers(key_ids text[])
returns table (key_id text, api_key_id uuid, mode text, scopes text[], rate_limit_rpm integer, secret_hash bytea,
  previous_secret_hash bytea, former_secret_hashes bytea[], grace_until timestamptz, expires_at timestamptz, revoked_at timestamptz,
  senders json, routes json, tenant tenant_facts)
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  select k.key_id, k.id, k.mode, k.scopes, k.rate_limit_rpm, k.secret_hash, k.previous_secret_hash,
    k.former_secret_hashes, k.grace_until,
    k.expires_at, k.revoked_at,
    coalesce((select json_agg(json_build_object('id', p.id, 'channel', p.channel, 'provider', p.provider) order by p.seq) from provider_accounts p
      where p.tenant_id = k.tenant_id and p.status not in ('disabled', 'deleted')), '[]'),
    coalesce((select json_agg(json_build_object('channel', r.channel, 'version', r.version, 'strategy', r.strategy, 'steps', r.steps, 'failoverOn', r.failover_on))
      from routes r where r.tenant_id = k.tenant_id and r.replaced_at is null), '[]'),
    t
  from api_keys k join tenant_facts t on t.id = k.tenant_id
  where k.key_id = any (key_ids)
$$;

grant execute on function find_callers(text[]) to despatch_api;
