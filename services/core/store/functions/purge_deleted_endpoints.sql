-- Looks at up to `most` endpoints that were deleted more than an hour ago, so that none of their calls is still under way.
-- Deletes their due deliveries, and the endpoints that have nothing else left. Feeds and call logs are dropped with their
-- partitions; an endpoint that still has some is looked at again after the next partitions have been dropped. Returns how many
-- rows or endpoints it handled; a number below `most` means that no others are left.
create or replace function purge_deleted_endpoints(most integer, today date) returns integer
language plpgsql set search_path = despatch, pg_temp set enable_seqscan = off as $$
declare
  looked uuid[];
  kept uuid[];
  n integer;
begin
  looked := array(select w.id from webhook_endpoints w
    where w.deleted_at < now() - interval '1 hour' and w.look_on <= today order by w.look_on limit most for update skip locked);
  delete from due_deliveries d where d.id = any (array(
    select x.id from due_deliveries x where x.endpoint_id = any (looked) limit most for update skip locked));
  get diagnostics n = row_count;
  if n = most then
    return n;
  end if;
  kept := array(select l.id from unnest(looked) as l (id)
    where exists (select from endpoint_feed f where f.endpoint_id = l.id)
      or exists (select from delivery_attempts a where a.endpoint_id = l.id));
  update webhook_endpoints w set look_on = date_trunc('week', today::timestamp)::date + 7 where w.id = any (kept);
  perform purge_endpoints(array(select l.id from unnest(looked) as l (id) where l.id <> all (kept)));
  return cardinality(looked);
end $$;
