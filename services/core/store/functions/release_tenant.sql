-- Returns held messages to the state in which each was held, at most `most` per call, while the tenant is active and no brake
-- holds the channel. Returns how many it released.
create or replace function release_tenant(for_tenant uuid, most integer) returns integer
language sql security definer set search_path = despatch, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
  with picked as (
    select x.seq, x.held_from
    from (
      -- Account by account, because a channel that stays held may have millions of messages.
      select p.id from provider_accounts p
      where p.tenant_id = for_tenant and p.emptied_at is null and brake_of(for_tenant, p.id) is distinct from 'held'
      -- The lane of simulators.
      union all select '00000000-0000-0000-0000-000000000000'
    ) a,
    (values (0::smallint), (1::smallint), (2::smallint), (3::smallint), (4::smallint), (5::smallint)) as q (priority),
    lateral (
      select l.seq, l.held_from from live_messages l
      where l.tenant_id = for_tenant and l.account_id = a.id and l.priority = q.priority
        and l.due_at = 'infinity' and l.status = 'held'
        and (l.test or not exists (
          select from brakes b where b.tenant_id = l.tenant_id and b.channel = l.channel and b.level = 'held'))
      limit most for update of l skip locked
    ) x
    where exists (select from tenants t where t.id = for_tenant and t.status = 'active')
    limit most
  ), origin as (
    select p.held_from, array_agg(p.seq) as seqs from picked p group by p.held_from
  )
  select count(*)::integer from origin o, move_messages(o.seqs, o.held_from, null)
$$;

grant execute on function release_tenant(uuid, integer) to despatch_worker;
