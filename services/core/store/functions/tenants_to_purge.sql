-- Slugs of tenants that the api has deleted and whose rows are still here, after the one given, in their order. Not at
-- once: an api that was not told knows the tenant as active for five seconds yet, and would make it a key anew for a secret.
create or replace function tenants_to_purge(after_slug text, most integer) returns setof text
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  select t.slug from tenants t
  where t.status = 'deleting' and t.owner_uid = 'api:' || t.id and t.updated_at < now() - interval '10 seconds'
    and (after_slug is null or t.slug > after_slug)
  order by t.slug limit most
$$;

grant execute on function tenants_to_purge(text, integer) to despatch_controller;
