-- Creates the counters of a new tenant and their lock rows.
create or replace function begin_counters(of_tenant uuid) returns void
language sql set search_path = despatch, pg_temp as $$
  insert into counter_locks (owner, counter) values (of_tenant, 'accepted'), (of_tenant, 'finished');
  insert into tenant_usage (tenant_id) values (of_tenant);
  insert into tenant_progress (tenant_id) values (of_tenant);
$$;
