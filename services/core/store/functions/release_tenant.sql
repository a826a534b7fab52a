-- Returns held messages to the state in which each was held, at most `most` per call, while the tenant is active and no brake
-- holds the channel. Under such a brake, messages whose sender named an instant that is still to come are scheduled again.
-- Returns how many it released.
create or replace function release_tenant(for_tenant uuid, most integer) returns integer
language sql security definer set search_path = despatch, pg_temp set enable_seqscan = off set enable_bitmapscan = off as $$
  with account as materialized (
    -- Account by account, because a channel that stays held may have millions of messages.
    select p.id, brake_of(for_tenant, p.id) is not distinct from 'held' as is_braked
    from provider_accounts p where p.tenant_id = for_tenant and p.emptied_at is null
    -- The lane of simulators.
    union all select '00000000-0000-0000-0000-000000000000', false
  ), picked as (
    select x.seq, x.held_from
    from account a,
    (values (0::smallint), (1::smallint), (2::smallint), (3::smallint), (4::smallint), (5::smallint)) as q (priority),
    lateral (
      select l.seq, l.held_from from live_messages l
      where l.tenant_id = for_tenant and l.account_id = a.id and l.priority = q.priority
        and l.due_at = 'infinity' and l.status = 'held'
        and (l.test or not exists (
          select from brakes b where b.tenant_id = l.tenant_id and b.channel = l.channel and b.level = 'held'))
      limit most for update of l skip locked
    ) x
    where not a.is_braked and exists (select from tenants t where t.id = for_tenant and t.status = 'active')
    limit most
  ), rescheduled as (
    select x.seq, 'scheduled' as held_from
    from account a, (values (3::smallint), (4::smallint), (5::smallint)) as q (priority),
    lateral (
      select l.seq from live_messages l
      where l.seq = any (array(select s.seq from held_schedule(for_tenant, a.id, q.priority) s))
        and l.status = 'held' and l.held_from = 'scheduled'
      limit most for update of l skip locked
    ) x
    where a.is_braked and exists (select from tenants t where t.id = for_tenant and t.status = 'active')
    limit most
  ), origin as (
    select p.held_from, array_agg(p.seq) as seqs
    from (select * from picked union all select * from rescheduled limit most) p group by p.held_from
  )
  select count(*)::integer from origin o, move_messages(o.seqs, o.held_from, null)
$$;

grant execute on function release_tenant(uuid, integer) to despatch_worker;
