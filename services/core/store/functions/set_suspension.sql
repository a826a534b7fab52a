-- Suspends or resumes the transaction's tenant; does nothing for another tenant, or if it may not move (`may_move_tenant`).
-- Idempotent.
create or replace function set_suspension(of_tenant uuid, why text, by_whom text) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  update tenants t set
    status = case when why is null then 'active' else 'suspended' end,
    suspension_reason = why,
    suspended_at = case when why is null then null else coalesce(t.suspended_at, now()) end,
    suspended_by = case when why is null then null else by_whom end,
    updated_at = now()
  -- Tests break this (mutant: suspension-tenant): the function acts on the transaction's tenant only.
  where t.id = of_tenant and of_tenant = current_tenant() and may_move_tenant(t.status,
    case when why is null then 'active' else 'suspended' end)
$$;

grant execute on function set_suspension(uuid, text, text) to despatch_api;
