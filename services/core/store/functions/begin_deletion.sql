-- Stops intake and delivery of the transaction's tenant for good; nothing where it is another's, or owned. From here on
-- nobody but its own purge owns it, under a name that no resource has, and a resource that it once had does not have it
-- back. Idempotent.
create or replace function begin_deletion(of_tenant uuid) returns void
language plpgsql security definer set search_path = despatch, pg_temp as $$
begin
  update tenants t set status = 'deleting', suspension_reason = null, suspended_at = null, suspended_by = null,
    owner_uid = 'api:' || t.id, owner_ref = null, updated_at = now()
  where t.id = of_tenant and of_tenant = current_tenant() and t.owner_uid is null and t.status <> 'deleting';
  if found then
    -- Who is accepting now has read the status before; from here on nobody reads the old one.
    perform lock_counters('accepted', array[of_tenant]);
  end if;
end $$;

grant execute on function begin_deletion(uuid) to despatch_api;
