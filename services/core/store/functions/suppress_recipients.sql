-- Adds entries that follow from what providers say, in the transaction that records what they said. One for the same reason that
-- holds for as much, and for good, stays as it is; any other makes way. Of one in force no less is stopped than before, and nothing
-- is kept of the address that its tenant did not want kept. `entries`: {tenant_id, channel, address_key in hex, address, reason, scope, source, message_id}.
create or replace function suppress_recipients(entries json) returns void
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
begin
  insert into suppressions as s (tenant_id, channel, address_key, address, reason, scope, source, message_id)
  -- Each once, and in the same order wherever it comes from: two that add the same wait for each other.
  select distinct on (e.address_key, e.reason) e.tenant_id, e.channel, decode(e.address_key, 'hex'),
    e.address, e.reason, e.scope, e.source, e.message_id
  from json_to_recordset(entries) as e (
    tenant_id uuid, channel text, address_key text, address text, reason text, scope text, source text, message_id uuid)
  order by e.address_key, e.reason, e.scope
  on conflict (address_key, reason) do update set
    id = excluded.id, source = excluded.source, message_id = excluded.message_id, expires_at = null,
    created_at = excluded.created_at,
    address = case when s.expires_at <= clock_timestamp() then excluded.address else s.address end,
    scope = case when s.expires_at <= clock_timestamp() or excluded.scope = 'all' then excluded.scope else s.scope end
  -- What a recipient says now is not over when something that was set before it is.
  where s.expires_at is not null or (s.scope = 'marketing' and excluded.scope = 'all');
end $$;

grant execute on function suppress_recipients(json) to despatch_worker;
