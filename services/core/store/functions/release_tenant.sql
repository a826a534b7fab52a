-- Gives back what was held, up to `most` a call: time in `held` does not count toward expiry. Returns how many.
create or replace function release_tenant(for_tenant uuid, most integer) returns integer
language sql security definer set search_path = despatch, pg_temp as $$
  with picked as (
    select l.seq from live_messages l
    where l.tenant_id = for_tenant and l.due_at = 'infinity' and l.status = 'held'
      and exists (select from tenants t where t.id = for_tenant and t.status = 'active')
    limit most for update of l skip locked
  ), freed as (
    update live_messages l
    set status = l.held_from, expires_at = l.expires_at + (clock_timestamp() - l.held_at), held_from = null, held_at = null,
      due_at = coalesce(l.next_attempt_at, clock_timestamp()), updated_at = clock_timestamp()
    from picked p where l.seq = p.seq
    returning l.seq, l.purge_on, l.tenant_id
  ), logged as (
    insert into event_log (message_seq, purge_on, tenant_id, type, source, at)
    select f.seq, f.purge_on, f.tenant_id, 'message.released', 'system', clock_timestamp() from freed f
  )
  select count(*)::integer from freed
$$;

grant execute on function release_tenant(uuid, integer) to despatch_worker;
