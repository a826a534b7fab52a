-- Keeps the tenant of a deleted resource: suspended, with all its data, and without an owner until a resource of the same
-- namespace and name takes it back. A resource gives up what it owns, and what an older resource of its name left behind; never
-- what a younger one has taken over, of which a controller with a stale view does not know. Creation times are whole seconds: of
-- two resources created in the same second, neither gives up the other's tenant. Returns the audit log entry if something
-- changed.
create or replace function retain_tenant(of_slug text, of_uid text, of_ref text, of_created timestamptz) returns jsonb
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  who uuid;
  entry audit_log;
begin
  perform lock_resource(of_uid);
  perform note_gone(of_uid);
  update tenants t set owner_uid = null, owner_created_at = greatest(t.owner_created_at, of_created), status = 'suspended',
    suspension_reason = coalesce(t.suspension_reason, 'manual'),
    suspended_at = coalesce(t.suspended_at, now()),
    suspended_by = coalesce(t.suspended_by, t.owner_ref), updated_at = now()
  where t.slug = of_slug and t.owner_ref = of_ref and t.owner_uid is not null
    and (t.owner_uid = of_uid or t.owner_created_at < of_created)
    and may_move_tenant(t.status, 'suspended')
  returning t.id into who;
  if who is not null then
    insert into audit_log (tenant_id, actor, action, target, details) values (who, 'resource:' || of_ref,
      'tenant.retained', who::text, jsonb_build_object('uid', of_uid, 'createdAt', of_created))
    returning * into entry;
    return to_jsonb(entry);
  end if;
  return null;
end $$;

grant execute on function retain_tenant(text, text, text, timestamptz) to despatch_controller;
