-- Adds the entries that follow from reports of providers, in the transaction that records the reports. An existing entry with the
-- same reason stays if it never expires and its scope is at least as wide; otherwise it is replaced. Replacing an entry in force
-- never narrows its scope, and stores no address if that entry has none because its tenant keeps hashes only. `entries`:
-- {tenant_id, channel, address_key in hex, address, reason, scope, source, message_id}.
create or replace function suppress_recipients(entries json) returns void
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
begin
  insert into suppressions as s (tenant_id, channel, address_key, address, reason, scope, source, message_id)
  -- Each key once, and always in the same order: transactions that add the same entry wait for each other without a deadlock.
  select distinct on (e.address_key, e.reason) e.tenant_id, e.channel, decode(e.address_key, 'hex'),
    e.address, e.reason, e.scope, e.source, e.message_id
  from json_to_recordset(entries) as e (
    tenant_id uuid, channel text, address_key text, address text, reason text, scope text, source text, message_id uuid)
  order by e.address_key, e.reason, e.scope
  on conflict (address_key, reason) do update set
    id = excluded.id, seq = default, source = excluded.source, message_id = excluded.message_id, expires_at = null,
    created_at = excluded.created_at,
    address = case when s.expires_at <= clock_timestamp() then excluded.address else s.address end,
    scope = case when s.expires_at <= clock_timestamp() or excluded.scope = 'all' then excluded.scope else s.scope end
  -- A recipient's new report must not end when an entry that was set earlier expires.
  where s.expires_at is not null or (s.scope = 'marketing' and excluded.scope = 'all');
end $$;

grant execute on function suppress_recipients(json) to despatch_worker;
