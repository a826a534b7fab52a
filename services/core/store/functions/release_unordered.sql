-- Makes events that wait for earlier events of their messages due once their endpoint is no longer ordered.
create or replace function release_unordered() returns trigger
language plpgsql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
begin
  update due_deliveries d set due_at = clock_timestamp() where d.endpoint_id = new.id and d.due_at = 'infinity';
  return null;
end $$;

create or replace trigger endpoint_order after update of ordered on webhook_endpoints
  for each row when (old.ordered and not new.ordered) execute function release_unordered();
