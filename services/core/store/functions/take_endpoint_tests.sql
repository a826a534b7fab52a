-- Claims test calls that people wait for, the oldest first, at most three per tenant at a time; claims one again after half a
-- minute without a result. Deletes those older than ten minutes, which nobody waits for any more.
create or replace function take_endpoint_tests(most integer) returns table (id uuid, endpoint_id uuid)
language sql security definer set search_path = despatch, pg_temp as $$
  delete from endpoint_tests t where t.id = any (array(
    select x.id from endpoint_tests x where x.asked_at < clock_timestamp() - interval '10 minutes'
    order by x.asked_at limit 100 for update skip locked));
  with picked as (
    select e.id from endpoint_tests e join (
      select x.id, row_number() over (partition by x.tenant_id order by x.asked_at, x.id) as nth from endpoint_tests x
      where x.asked_at >= clock_timestamp() - interval '1 minute' and x.result is null
    ) o on o.id = e.id
    where o.nth <= 3 and e.due_at <= clock_timestamp() and e.result is null
    order by e.asked_at limit most for update of e skip locked
  )
  update endpoint_tests t set due_at = clock_timestamp() + interval '30 seconds'
  from picked where t.id = picked.id
  returning t.id, t.endpoint_id
$$;

grant execute on function take_endpoint_tests(integer) to despatch_worker;
