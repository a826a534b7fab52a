-- Stores an event of a tenant or of one of its accounts, in the transaction that makes the change.
create or replace function note_tenant_event(of_tenant uuid, of_type text, of_details jsonb) returns void
language plpgsql set search_path = despatch, pg_temp as $$
declare
  stored tenant_events;
begin
  insert into tenant_events (purge_on, tenant_id, type, details, at)
  select purge_day(clock_timestamp(), coalesce((l.limits ->> 'retentionDays')::integer, 30)), of_tenant, of_type,
    jsonb_strip_nulls(of_details), clock_timestamp()
  from (select) one left join tenant_limits l on l.tenant_id = of_tenant
  returning * into stored;
  perform note_changes(array[of_tenant], array[0], array[stored.purge_on], array[stored.event_seq]);
end $$;
