-- Returns a stretch of a tenant's whole feed, for a worker (`read_events`).
create or replace function read_tenant_events(of_tenant uuid, after_seq bigint, rows integer, message_types text[])
returns setof feed_event
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
begin
  return query select * from read_events(of_tenant, null, after_seq, rows, message_types, null, null, null, rows);
end $$;

grant execute on function read_tenant_events(uuid, bigint, integer, text[]) to despatch_worker;
