-- Applies brakes that were decided from the windows of a usage pass, with an event and an audit log entry for each. Leaves a
-- channel alone that has the same or a stronger brake, or whose brake was lifted after its window was read. `decided`:
-- [{tenantId, channel, level, reason, rate, bound, gapMs, liftedAt}]. Returns the audit log entries in the form in which they are
-- logged.
create or replace function apply_brakes(decided json) returns setof json
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  d record;
  applied record;
  facts jsonb;
  entry audit_log;
begin
  for d in
    select x.* from json_to_recordset(decided) as x (
      "tenantId" uuid, channel text, level text, reason text, rate numeric, bound numeric, "gapMs" float8, "liftedAt" timestamptz)
    join tenants t on t.id = x."tenantId" and t.status in ('active', 'suspended')
    -- Holds the tenant's row, so that the end of its purge waits for the event and the entry that are written here.
    order by x."tenantId", x.channel for key share of t
  loop
    insert into brakes as b (tenant_id, channel, level, reason, rate, bound, applied_at, gap_ms, next_at)
    values (d."tenantId", d.channel, d.level, d.reason, d.rate, d.bound, clock_timestamp(), d."gapMs", clock_timestamp())
    on conflict (tenant_id, channel) do update set level = excluded.level, reason = excluded.reason, rate = excluded.rate,
      bound = excluded.bound, applied_at = excluded.applied_at, gap_ms = excluded.gap_ms, next_at = excluded.next_at
    where (b.level is null or (b.level = 'slowed' and excluded.level = 'held'))
      -- A decision made before a brake was lifted is not applied.
      and b.lifted_at is not distinct from d."liftedAt"
    returning old.level as was, b.* into applied;
    continue when not found;
    facts := jsonb_build_object('channel', applied.channel, 'level', applied.level, 'reason', applied.reason, 'rate', applied.rate,
      'bound', applied.bound);
    perform note_tenant_event(applied.tenant_id, 'tenant.brake_applied', facts);
    insert into audit_log (tenant_id, actor, action, target, changes, details)
    values (applied.tenant_id, 'service', 'tenant.brake_applied', applied.tenant_id::text,
      jsonb_build_array(jsonb_build_object('field', 'brake.' || applied.channel, 'from', applied.was, 'to', applied.level)),
      facts || jsonb_build_object('gapMs', applied.gap_ms))
    returning * into entry;
    return next json_build_object('id', entry.id, 'seq', entry.seq, 'at', entry.at, 'tenantId', entry.tenant_id,
      'actor', entry.actor, 'action', entry.action, 'target', entry.target, 'facts', entry.details);
  end loop;
end $$;

grant execute on function apply_brakes(json) to despatch_worker;
