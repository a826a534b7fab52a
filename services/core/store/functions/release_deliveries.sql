-- Makes events due that wait for earlier events of their messages although their endpoint is no longer ordered, at most `most` per
-- call: those that were too many for the request that changed the endpoint (`release_unordered`). Returns how many.
create or replace function release_deliveries(most integer) returns integer
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  n integer;
begin
  update due_deliveries d set due_at = clock_timestamp() where d.id = any (array(
    select x.id from webhook_endpoints w
    cross join lateral (
      select y.id from due_deliveries y where y.endpoint_id = w.id and y.due_at = 'infinity' limit most for update skip locked) x
    where not w.ordered and w.deleted_at is null limit most));
  get diagnostics n = row_count;
  return n;
end $$;

grant execute on function release_deliveries(integer) to despatch_worker;
