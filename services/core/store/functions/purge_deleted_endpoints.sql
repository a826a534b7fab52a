-- Looks at `most` endpoints at most that were deleted more than an hour ago, so that no call of theirs is under way. What they had waiting
-- goes, and they themselves where nothing else is left of them; their feeds and the log of their calls go with the partitions, and who has
-- some is looked at again when the next ones have been dropped. Returns how many it has dealt with, rows or endpoints; fewer than `most`,
-- and there are no others.
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
