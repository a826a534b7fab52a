-- What is under way in the name of this start of a worker: it looks here where the answer of a claim was lost. With less
-- than half of its lease left a call could outlast it.
create or replace function claimed_by(for_tenant uuid, by_worker text) returns setof claimed_message
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  return query select c.* from claimed_message c where c.seq = any (array(
    select l.seq from live_messages l
    where l.tenant_id = for_tenant and l.status = 'sending' and l.worker = by_worker
      and clock_timestamp() < l.started_at + (l.lease_until - l.started_at) / 2));
end $$;

grant execute on function claimed_by(uuid, text) to despatch_worker;
