-- Stops intake and delivery of the transaction's tenant for good. Does nothing for another tenant or for one that a resource
-- owns. From here on the tenant is owned by its purge alone, under a UID that no resource has, and a resource that owned it
-- before cannot take it back. Idempotent.
create or replace function begin_deletion(of_tenant uuid) returns void
language plpgsql security definer set search_path = despatch, pg_temp as $$
begin
  update tenants t set status = 'deleting', suspension_reason = null, suspended_at = null, suspended_by = null,
    owner_uid = 'api:' || t.id, owner_ref = null, updated_at = now()
  where t.id = of_tenant and of_tenant = current_tenant() and t.owner_uid is null
    and may_move_tenant(t.status, 'deleting');
  if found then
    -- Waits for acceptances that have read the old status; later ones read the new status.
    perform lock_counters('accepted', array[of_tenant]);
  end if;
end $$;

grant execute on function begin_deletion(uuid) to despatch_api;
