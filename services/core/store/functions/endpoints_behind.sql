-- Looks at the next `most` endpoints after `after_id`, without deleted ones, and returns the tenants whose feeds have events that
-- are not matched yet. `next_id`: the last endpoint looked at; null if none follows.
create or replace function endpoints_behind(after_id uuid, most integer) returns table (tenant_ids uuid[], next_id uuid)
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
begin
  return query
    with looked as materialized (
      select w.id, w.tenant_id from webhook_endpoints w
      where w.deleted_at is null and w.id > coalesce(after_id, '00000000-0000-0000-0000-000000000000') order by w.id limit most
    )
    select array(
        select distinct l.tenant_id from looked l
        join tenants t on t.id = l.tenant_id and t.status in ('active', 'suspended')
        join endpoint_reach r on r.id = any (array[l.id])
        where r.matched_to < (select h.last_seq from feed_heads h where h.tenant_id = l.tenant_id order by h.last_seq desc limit 1)
          -- Purged events can no longer be matched.
          and exists (select from feed f where f.tenant_id = l.tenant_id and f.last_seq > r.matched_to)),
      (select case when count(*) = most then max(l.id::text)::uuid end from looked l);
end $$;

grant execute on function endpoints_behind(uuid, integer) to despatch_worker;
