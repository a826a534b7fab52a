-- Stops intake and delivery for good. Returns the tenant's id; null if the resource with `of_uid` does not own a tenant of that
-- slug.
create or replace function begin_purge(of_slug text, of_uid text) returns uuid
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  who uuid;
begin
  perform lock_resource(of_uid);
  select t.id into who from tenants t where t.slug = of_slug and t.owner_uid = of_uid for no key update;
  if who is null then
    return null;
  end if;
  perform note_gone(of_uid);
  update tenants t set status = 'deleting', suspension_reason = null, suspended_at = null, suspended_by = null, updated_at = now()
  where t.id = who and may_move_tenant(t.status, 'deleting');
  -- Waits for acceptances that have read the old status; later ones read the new status.
  perform lock_counters('accepted', array[who]);
  return who;
end $$;

grant execute on function begin_purge(text, text) to despatch_controller;
