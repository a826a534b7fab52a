-- Stores an endpoint's health, in the transaction that has locked it; does nothing if a worker may not make this move.
create or replace function store_endpoint_health(of_endpoint uuid, to_status text, reason text, failed integer,
  since timestamptz, not_before timestamptz) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  update webhook_endpoints w set status = to_status, status_reason = reason, failures = failed, failing_since = since,
    call_at = coalesce(not_before, '-infinity'), updated_at = case when w.status = to_status then w.updated_at else now() end
  where w.id = of_endpoint and w.deleted_at is null and may_move_endpoint('worker', w.status, to_status)
$$;

grant execute on function store_endpoint_health(uuid, text, text, integer, timestamptz, timestamptz) to despatch_worker;
