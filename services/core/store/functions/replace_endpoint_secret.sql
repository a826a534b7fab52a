-- Stores a new secret of a webhook endpoint. The old secret keeps signing beside it for `grace` seconds; with 0 only the new one
-- signs. Does nothing if the endpoint belongs to another tenant or is deleted.
create or replace function replace_endpoint_secret(of_tenant uuid, of_endpoint uuid, new_secret text, grace integer) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  update webhook_endpoints e set
    secret = new_secret,
    previous_secret = case when grace > 0 then e.secret end,
    previous_until = case when grace > 0 then now() + make_interval(secs => grace) end,
    secret_version = e.secret_version + 1,
    version = e.version + 1,
    updated_at = now()
  where e.id = of_endpoint and e.tenant_id = of_tenant and of_tenant = current_tenant() and e.deleted_at is null
$$;

grant execute on function replace_endpoint_secret(uuid, uuid, text, integer) to despatch_api;
