-- Makes events that wait for earlier events of their messages due once their endpoint is no longer ordered: a part of them, because
-- a request waits for this and holds the endpoint's row. Workers release the others within minutes (`release_deliveries`).
create or replace function release_unordered() returns trigger
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
begin
  update due_deliveries d set due_at = clock_timestamp() where d.id = any (array(
    select x.id from due_deliveries x where x.endpoint_id = new.id and x.due_at = 'infinity' limit 10000 for update skip locked));
  return null;
end $$;

create or replace trigger endpoint_order after update of ordered on webhook_endpoints
  for each row when (old.ordered and not new.ordered) execute function release_unordered();
