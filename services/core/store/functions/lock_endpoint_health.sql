-- Locks an endpoint until the transaction ends and returns its health; no row if it is deleted or no longer has this version.
-- `at`: this server's time, with which all workers compare the times of the health.
create or replace function lock_endpoint_health(of_endpoint uuid, of_version integer)
returns table (status text, status_reason text, failures integer, failing_since timestamptz, call_at timestamptz, at timestamptz)
language sql security definer set search_path = despatch, pg_temp as $$
  select w.status, w.status_reason, w.failures, w.failing_since, nullif(w.call_at, '-infinity'), clock_timestamp()
  from webhook_endpoints w
  where w.id = of_endpoint and w.version = of_version and w.deleted_at is null for no key update
$$;

grant execute on function lock_endpoint_health(uuid, integer) to despatch_worker;
