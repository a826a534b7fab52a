-- Finds in one lane the attempts under way that this start of a worker has begun; the worker calls it after it lost the answer to
-- a claim from that lane. Fails like `claimed_by`, which then returns the messages.
-- No index has the worker, because a claim must stay on its page (HOT), so the search reads what the claim could have taken: the
-- lane from `due_from`, as for `due_floor`, to `ahead_ms` from now, or to where a review has postponed attempts under way
-- (`find_waiting_due`). That may be a backlog of millions. A call reads `reads_max` rows; `next_place` is where the next call,
-- which gets it as `place`, continues, and null at the end. `until` keeps a lane that grows from being searched forever.
create or replace function claimed_in(for_tenant uuid, for_account uuid, by_worker text, lease_ms integer, ahead_ms integer,
  reads_max integer, due_from float8[], place json)
returns table (seqs bigint[], attempts integer[], reads integer, next_place json)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  number integer;
  at_now timestamptz;
  until timestamptz;
  urgency integer := coalesce((place ->> 'priority')::integer, 0);
  after_due timestamptz := coalesce((place ->> 'due_at')::timestamptz, '-infinity');
  after_seq bigint := coalesce((place ->> 'seq')::bigint, 0);
  page record;
begin
  if not pg_try_advisory_xact_lock(hashtext('despatch.claims'), hashtext(by_worker)) then
    raise exception 'a claim of this worker has not ended' using errcode = 'lock_not_available';
  end if;
  -- After the lock, so that the claim began before; volatile, so that what it committed is seen.
  at_now := clock_timestamp();
  select w.id into number from workers w where w.name = by_worker;
  until := coalesce((place ->> 'until')::timestamptz,
    at_now + make_interval(secs => greatest(ahead_ms, lease_ms + 1000) / 1000.0));
  seqs := '{}';
  attempts := '{}';
  reads := 0;
  loop
    -- Reads only the narrow table.
    with looked as materialized (
      select l.seq, l.due_at, l.attempt, l.status = 'sending' and l.worker = number and l.lease_until > at_now as is_own
      from live_messages l
      where l.tenant_id = for_tenant and l.account_id = for_account and l.priority = urgency::smallint
        and l.due_at >= greatest(due_floor(due_from, urgency::smallint), after_due) and l.due_at <= until
        and (l.due_at, l.seq) > (after_due, after_seq)
      order by l.due_at, l.seq limit reads_max - reads
    )
    select coalesce(array_agg(l.seq) filter (where l.is_own), '{}') as seqs,
      coalesce(array_agg(l.attempt) filter (where l.is_own), '{}') as attempts, count(*)::integer as n,
      (select json_build_object('priority', urgency, 'due_at', x.due_at, 'seq', x.seq, 'until', until)
        from looked x order by x.due_at desc, x.seq desc limit 1) as place
    into page from looked l;
    seqs := seqs || page.seqs;
    attempts := attempts || page.attempts;
    reads := reads + page.n;
    if reads >= reads_max then
      next_place := page.place;
    end if;
    exit when reads >= reads_max or urgency >= 2;
    urgency := urgency + 1;
    after_due := '-infinity';
    after_seq := 0;
  end loop;
  return next;
end $$;

grant execute on function claimed_in(uuid, uuid, text, integer, integer, integer, float8[], json) to despatch_worker;
