-- Counts messages that left the backlog (sent, unknown or terminal), a locked row per tenant in the order of their ids.
create or replace function count_finished(tenants uuid[]) returns void
language sql set search_path = despatch, pg_temp as $$
  insert into tenant_progress as p (tenant_id, finished)
  select t.id, count(*) from unnest(tenants) as t (id) group by t.id order by t.id
  on conflict (tenant_id) do update set finished = p.finished + excluded.finished
$$;
