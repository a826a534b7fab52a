-- Notifies tenants that their daily limit is nearly or fully used up: an event and an audit log entry each, in the transaction
-- whose messages reach the level. `crossed`: [{tenant_id, day_limit, used, counting, warned, warns}]: the messages used before
-- and those added now, and the level reported before and the level reached now, in per cent. Returns the audit log entries in the
-- form in which they are logged.
create or replace function warn_of_limits(crossed jsonb) returns setof json
language plpgsql set search_path = despatch, pg_temp as $$
declare
  c record;
  facts jsonb;
  entry audit_log;
begin
  for c in
    select x.*, 'limit.' || l.name as type, x.used + x.counting as used_now
    from jsonb_to_recordset(crossed) as x (tenant_id uuid, day_limit bigint, used bigint, counting bigint, warned integer, warns integer),
      (values ('approaching', 80), ('reached', 100)) as l (name, percent)
    where l.percent > x.warned and l.percent <= x.warns
    order by x.tenant_id, l.percent
  loop
    facts := jsonb_build_object('limit', 'messagesPerDay', 'value', c.day_limit, 'used', c.used_now);
    perform note_tenant_event(c.tenant_id, c.type, facts);
    insert into audit_log (tenant_id, actor, action, target, changes, details)
    values (c.tenant_id, 'service', c.type, c.tenant_id::text,
      jsonb_build_array(jsonb_build_object('field', 'messagesPerDay.used', 'from', c.used, 'to', c.used_now)), facts)
    returning * into entry;
    return next json_build_object('id', entry.id, 'seq', entry.seq, 'at', entry.at, 'tenantId', entry.tenant_id,
      'actor', entry.actor, 'action', entry.action, 'target', entry.target, 'facts', entry.details);
  end loop;
end $$;
