-- Stores the result of a test call that a person waits for.
create or replace function store_endpoint_test(of_test uuid, exchange jsonb) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  update endpoint_tests t set result = exchange where t.id = of_test and t.result is null
$$;

grant execute on function store_endpoint_test(uuid, jsonb) to despatch_worker;
