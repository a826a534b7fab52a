-- Returns the number of webhook endpoints in each state; states without endpoints have no row.
create or replace function count_endpoints() returns table (status text, endpoints integer)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select w.status, count(*)::integer from webhook_endpoints w where w.deleted_at is null group by w.status
$$;

grant execute on function count_endpoints() to despatch_worker;
