-- Gives back what was held to where each was held from, up to `most` a call. Returns how many.
create or replace function release_tenant(for_tenant uuid, most integer) returns integer
language sql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  with picked as (
    select l.seq, l.held_from from live_messages l
    where l.tenant_id = for_tenant and l.due_at = 'infinity' and l.status = 'held'
      and exists (select from tenants t where t.id = for_tenant and t.status = 'active')
    limit most for update of l skip locked
  ), origin as (
    select p.held_from, array_agg(p.seq) as seqs from picked p group by p.held_from
  )
  select count(*)::integer from origin o, move_messages(o.seqs, o.held_from, null)
$$;

grant execute on function release_tenant(uuid, integer) to despatch_worker;
