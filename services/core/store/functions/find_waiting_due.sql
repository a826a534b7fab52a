-- Messages of a lane that are due and that `claim_due` will not take: of a tenant that is not active, of a channel that a brake holds, expired, of an account
-- that cannot be used, to a recipient that is suppressed, under way for longer than their lease. What is under way in good order is put out of sight until its
-- lease is over.
-- A lane may hold a million messages that wait in good order. Of each priority a call therefore reads `reads_max` of them and finds `most`, and returns in
-- `next_places` where the following call, which gets it as `places`, is to go on; null where all has been read, and the following call begins anew. `until` bounds
-- what is read until then: a lane that grows as fast as it is read would never be begun anew. `due_from`: as for `due_floor`.
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
    -- From the narrow table alone.
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
        -- Where the page is full of what was found, what was read behind that is read again.
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
