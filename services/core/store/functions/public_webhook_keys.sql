-- Returns tenants' public keys, which are visible to everybody: at most `keys_max` per tenant. The current signing key comes
-- first; then, newest first, keys that will sign later and keys whose signatures may still be verified.
create or replace function public_webhook_keys(tenant_ids uuid[], keys_max integer)
returns table (tenant_id uuid, id uuid, public_key text)
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  select k.tenant_id, k.id, k.public_key
  from unnest(tenant_ids) t (id)
  cross join lateral (
    select max(w.signs_from) as since from webhook_keys w where w.tenant_id = t.id and w.signs_from <= now()) s
  cross join lateral (
    select w.tenant_id, w.id, w.public_key, w.signs_from, w.signs_from = s.since as signs from webhook_keys w
    where w.tenant_id = t.id and (w.shown_until is null or w.shown_until > now())
    order by w.signs_from = s.since desc, w.signs_from desc, w.id desc limit keys_max) k
  order by k.tenant_id, k.signs desc, k.signs_from desc, k.id desc
$$;

grant execute on function public_webhook_keys(uuid[], integer) to despatch_api;
