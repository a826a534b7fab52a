-- Writes the event of a tenant that is suspended or resumed, whether by an administrator, by its resource, or because the
-- resource is gone.
create or replace function note_suspension_event() returns trigger
language plpgsql security definer set search_path = despatch, pg_temp as $$
begin
  if new.status = 'suspended' then
    perform note_tenant_event(new.id, 'tenant.suspended', jsonb_build_object('reason', new.suspension_reason));
  elsif new.status = 'active' and old.status = 'suspended' then
    perform note_tenant_event(new.id, 'tenant.resumed', jsonb_build_object('reason', old.suspension_reason));
  end if;
  return null;
end $$;

create or replace trigger suspension_events after update of status on tenants
  for each row when (new.status <> old.status) execute function note_suspension_event();
