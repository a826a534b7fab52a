-- Returns due messages of a lane that `claim_due` will not take: of an inactive tenant, of a channel that a brake holds, expired,
-- of an unusable account, to a suppressed recipient, or under way for longer than their lease. It postpones `due_at` of messages
-- under way to the end of their lease, so that later looks skip them.
-- A lane may hold a million messages that wait normally. A call therefore reads `reads_max` messages of each priority and finds
-- `most`. `next_places` is where the next call, which gets it as `places`, continues; null when everything has been read and the
-- next call starts from the beginning. `until` bounds one round of calls: without it a lane that grows as fast as it is read
-- would never start again. `due_from`: as for `due_floor`.
create or replace function find_waiting_due(for_tenant uuid, for_account uuid, most integer, reads_max integer, due_from float8[],
  places json default null) returns table (seqs bigint[], next_places json)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  is_active boolean := exists (select from tenants t where t.id = for_tenant and t.status = 'active');
  is_usable boolean := exists (select from provider_accounts p where p.id = for_account and p.status not in ('disabled', 'deleted'));
  is_held boolean := brake_of(for_tenant, for_account) is not distinct from 'held';
  has_suppressions boolean := exists (select from suppressions s where s.tenant_id = for_tenant);
  after_due timestamptz;
  after_seq bigint;
  until timestamptz;
  page record;
  ends json[] := '{}';
begin
  seqs := '{}';
  for urgency in 0..2 loop
    after_due := coalesce((places -> urgency ->> 'due_at')::timestamptz, '-infinity');
    after_seq := coalesce((places -> urgency ->> 'seq')::bigint, 0);
    until := coalesce((places -> urgency ->> 'until')::timestamptz, at_now);
    -- Reads only the narrow table.
    with looked as materialized (
      select l.seq, l.due_at, l.status, l.lease_until, l.expires_at, l.test, l.marketing, l.tenant_id, l.address_key from live_messages l
      where l.tenant_id = for_tenant and l.account_id = for_account and l.priority = urgency::smallint
        and l.due_at >= greatest(due_floor(due_from, urgency::smallint), after_due) and l.due_at <= until
        and (l.due_at, l.seq) > (after_due, after_seq)
      order by l.due_at, l.seq limit reads_max
    ), found as materialized (
      select l.seq, l.due_at from looked l
      where (l.status = 'sending' and l.lease_until <= at_now) or (l.status in ('queued', 'deferred')
        and (not is_active or is_held or l.expires_at <= at_now or not (l.test or is_usable)
          or (has_suppressions and exists (select from suppressions_now s
            where s.address_key = l.address_key and s.tenant_id is not distinct from l.tenant_id
              and (s.scope = 'all' or l.marketing)))))
      order by l.due_at, l.seq limit most
    )
    select array(select f.seq from found f) as seqs,
      array(select l.seq from looked l where l.status = 'sending' and l.lease_until > at_now limit most) as under_way,
      (select json_build_object('due_at', x.due_at, 'seq', x.seq, 'until', until) from (
        -- If the page is full of found messages, the messages read behind the last found one are read again.
        (select f.due_at, f.seq from found f order by f.due_at desc, f.seq desc limit case when (select count(*) from found) >= most then 1 else 0 end)
        union all
        (select l.due_at, l.seq from looked l order by l.due_at desc, l.seq desc limit case when (select count(*) from looked) >= reads_max then 1 else 0 end)
      ) x order by x.due_at, x.seq limit 1) as place
    into page;
    update live_messages l set due_at = l.lease_until + interval '1 second'
    where l.seq = any (array(
      select x.seq from live_messages x
      where x.seq = any (page.under_way) and x.status = 'sending' and x.lease_until > at_now for update skip locked));
    seqs := seqs || page.seqs;
    ends := array_append(ends, page.place);
  end loop;
  if num_nonnulls(variadic ends) > 0 then
    next_places := array_to_json(ends);
  end if;
  return next;
end $$;

grant execute on function find_waiting_due(uuid, uuid, integer, integer, float8[], json) to despatch_worker;
