-- Returns the tenants that have counts of these days, by their slugs: only the one with `of_slug` unless it is null, and only those
-- after `after_slug` unless it is null; at most `most`.
create or replace function tenants_with_usage(since timestamptz, until timestamptz, of_slug text, after_slug text, most integer)
returns table (id uuid, slug text)
language sql stable security definer set search_path = despatch, pg_temp set enable_seqscan = off set jit = off as $$
  select t.id, t.slug from tenants t
  -- Looked up for each tenant: a join could read the counts of all tenants for a page of a few.
  cross join lateral (select from usage_counts u
    where u.tenant_id = t.id and u.dimension = 'day' and u.period >= since and u.period < tenants_with_usage.until limit 1) u
  where (of_slug is null or t.slug = of_slug) and (after_slug is null or t.slug > after_slug)
  order by t.slug limit most
$$;

grant execute on function tenants_with_usage(timestamptz, timestamptz, text, text, integer) to despatch_api;
