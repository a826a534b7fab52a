-- Messages accepted and not finished, of all tenants.
create or replace function backlog_totals() returns table (backlog bigint)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select coalesce((select sum(accepted) from tenant_usage), 0)::bigint
    - coalesce((select sum(finished) from tenant_progress), 0)::bigint
$$;

grant execute on function backlog_totals() to despatch_worker;
