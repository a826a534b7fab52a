-- Returns slugs of tenants that are deleted and still have rows, after the given slug, in their order. Waits ten seconds after the
-- deletion, because `purge_some` would not end a purge before.
create or replace function tenants_to_purge(after_slug text, most integer) returns setof text
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  select t.slug from tenants t
  where t.status = 'deleting' and t.updated_at < now() - interval '10 seconds' and (after_slug is null or t.slug > after_slug)
  order by t.slug limit most
$$;

grant execute on function tenants_to_purge(text, integer) to despatch_controller;
