-- Counts the channels of active tenants by the level of their brake; levels without channels are left out.
create or replace function count_brakes() returns table (level text, channels integer)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select b.level, count(*)::integer from brakes b join tenants t on t.id = b.tenant_id and t.status = 'active'
  where b.level is not null group by b.level order by b.level
$$;

grant execute on function count_brakes() to despatch_worker;
