-- How many channels of tenants that may send are at each level of a brake; nothing of a level that none is at.
create or replace function count_brakes() returns table (level text, channels integer)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select b.level, count(*)::integer from brakes b join tenants t on t.id = b.tenant_id and t.status = 'active'
  where b.level is not null group by b.level order by b.level
$$;

grant execute on function count_brakes() to despatch_worker;
