-- Does the same as `wake_deferred` for the api, and only for the transaction's tenant.
create or replace function wake_waiting(for_account uuid) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  select wake_deferred(p.id) from provider_accounts p where p.id = for_account and p.tenant_id = current_tenant()
$$;

grant execute on function wake_waiting(uuid) to despatch_api;
