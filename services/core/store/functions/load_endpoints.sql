-- Returns endpoints with everything that a call needs, ciphertexts included; the previous secret only while it is still used to
-- sign. A tenant that is being deleted has none.
create or replace function load_endpoints(ids uuid[])
returns table (id uuid, number bigint, tenant_id uuid, url text, headers jsonb, event_types text[], final_only boolean,
  channels text[], tags text[], ordered boolean, mask_recipients boolean, signatures text[], status text, failures integer,
  failing_since timestamptz, version integer, secret text, previous_secret text, client_certificate text, key_id uuid,
  key_ciphertext text)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select w.id, w.number, w.tenant_id, w.url, w.headers, w.event_types, w.final_only, w.channels, w.tags, w.ordered,
    w.mask_recipients, w.signatures, w.status, w.failures, w.failing_since, w.version, w.secret,
    case when w.previous_until > now() then w.previous_secret end, w.client_certificate, k.id, k.ciphertext
  from webhook_endpoints w
  join tenants t on t.id = w.tenant_id and t.status in ('active', 'suspended')
  left join lateral (
    select x.id, x.ciphertext from webhook_keys x
    where x.tenant_id = w.tenant_id and x.signs_from <= now() and x.ciphertext is not null and 'v1a' = any (w.signatures)
    order by x.signs_from desc limit 1
  ) k on true
  where w.id = any (ids) and w.deleted_at is null
$$;

grant execute on function load_endpoints(uuid[]) to despatch_worker;
