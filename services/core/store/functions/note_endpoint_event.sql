-- Writes the event of an endpoint that becomes `failing` or `disabled`; without the query of its URL, which may hold a secret. A
-- trigger, so that every change has its event, whichever statement makes it.
create or replace function note_endpoint_event() returns trigger
language plpgsql security definer set search_path = despatch, pg_temp as $$
begin
  perform note_tenant_event(new.tenant_id, 'endpoint.' || new.status, jsonb_build_object('endpointId', new.id, 'url', split_part(new.url, '?', 1),
    'status', new.status, 'reason', new.status_reason));
  return null;
end $$;

create or replace trigger endpoint_events after update of status on webhook_endpoints
  for each row when (new.status <> old.status and new.status in ('failing', 'disabled') and new.deleted_at is null)
  execute function note_endpoint_event();
