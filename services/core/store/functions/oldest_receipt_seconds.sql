-- Returns how long the oldest receipt call has waited for a worker to settle it; 0 if none waits.
create or replace function oldest_receipt_seconds() returns double precision
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  select coalesce((select extract(epoch from clock_timestamp() - c.received_at) from receipt_calls c order by c.id limit 1), 0)
$$;

grant execute on function oldest_receipt_seconds() to despatch_worker;
