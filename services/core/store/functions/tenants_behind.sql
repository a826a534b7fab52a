-- Returns those tenants, of `among` and of the tenants that got events in numbering passes after `after_pass`, that have an
-- endpoint with unmatched events. `newest_pass`: where the next look starts. `is_whole`: false if some of the passes since
-- `after_pass` are no longer stored.
create or replace function tenants_behind(after_pass bigint, among uuid[])
returns table (tenant_ids uuid[], newest_pass bigint, is_whole boolean)
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
declare
  candidates uuid[] := array(
    select u.id from unnest(among) as u (id)
    union
    select unnest(p.endpoint_tenants) from feed_passes p where p.id > after_pass);
begin
  select p.id into newest_pass from feed_passes p order by p.id desc limit 1;
  is_whole := exists (select from feed_passes p where p.id = after_pass);
  with looked as materialized (
    select w.id, w.tenant_id from webhook_endpoints w where w.tenant_id = any (candidates) and w.deleted_at is null
  )
  select array_agg(distinct l.tenant_id) into tenant_ids from looked l
  join tenants t on t.id = any (array[l.tenant_id]) and t.status in ('active', 'suspended')
  join endpoint_reach r on r.id = any (array[l.id])
  where r.matched_to < (select h.last_seq from feed_heads h where h.tenant_id = l.tenant_id order by h.last_seq desc limit 1)
    -- Purged events can no longer be matched.
    and exists (select from feed f where f.tenant_id = l.tenant_id and f.last_seq > r.matched_to);
  tenant_ids := coalesce(tenant_ids, '{}');
  return next;
end $$;

grant execute on function tenants_behind(bigint, uuid[]) to despatch_worker;
