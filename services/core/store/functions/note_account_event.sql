-- Writes the events of an account whose status or health changes. A trigger, so that every change has its event, whichever
-- statement makes it.
create or replace function note_account_event() returns trigger
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  facts jsonb := jsonb_build_object('providerId', new.id, 'provider', new.provider, 'channel', new.channel,
    'label', new.label, 'status', new.status, 'reason', new.status_reason);
begin
  if new.status <> old.status and new.status in ('active', 'invalid') then
    perform note_tenant_event(new.tenant_id, 'provider.' || new.status, facts);
  end if;
  if (new.health = 'healthy') <> (old.health = 'healthy') then
    perform note_tenant_event(new.tenant_id,
      case when new.health = 'healthy' then 'provider.recovered' else 'provider.degraded' end, facts - 'reason');
  end if;
  return null;
end $$;

create or replace trigger account_events after update of status, health on provider_accounts
  for each row when (new.status <> old.status or new.health <> old.health) execute function note_account_event();
