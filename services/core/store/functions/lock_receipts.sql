-- Returns the receipts that are next, each with what is known of its message. Receipts and messages stay locked until the
-- transaction ends: the caller decides the result and passes it to `record_receipts`. `seq` is null if no message was found, or
-- if it was purged. `under_way`: a call for the message is under way, or another transaction has locked it. `doubtful`: the
-- message waits, and an earlier call got no answer. `waiting_of_account`: how many receipts of the account wait for their
-- message, counted up to `waiting_max` + 1; null for a receipt that need not wait. `without`: tenants to skip.
create or replace function lock_receipts(most integer, waiting_max integer, without uuid[]) returns table (
  id uuid, tenant_id uuid, account_id uuid, provider text, attempt integer, receipt text, temporary boolean, failure jsonb,
  segment text, engagement text, provider_status text, provider_message_id text, await_ms bigint, verified boolean,
  asked boolean, happened_ms bigint, report_key text, called_in text, sent_in text, waited_ms bigint, waiting boolean,
  waiting_of_account integer, seq bigint, purge_on date, under_way boolean, doubtful boolean, repeated boolean, status text,
  final boolean, last_attempt integer, failure_shown jsonb,
  segments smallint, segment_states jsonb, partial boolean, late_bounce boolean, engaged jsonb)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  at_now timestamptz := clock_timestamp();
  -- A random start, so that every lane gets a turn when there are more lanes than a batch has room for.
  first_lane uuid := gen_random_uuid();
  lanes uuid[];
  -- How many of the lanes belong to the lane's tenant.
  siblings bigint[];
  -- Maximum receipts of one tenant.
  share bigint;
  found integer;
  -- Whether a lane may have more receipts than were looked at.
  is_cut boolean;
  come uuid[];
  again_ids uuid[];
  -- Tenants with waiting receipts that are due.
  tenants uuid[];
  due_again uuid[];
  again integer;
  batch uuid[];
  ids uuid[];
  seqs bigint[];
  days date[];
  numbers integer[];
  -- Bounds of the messages' partitions. Partitions outside are pruned before a look-up starts, which for a small batch is most of
  -- the work. Each look-up has a `limit`, so that it runs row by row: with few messages the planner would rate a scan of
  -- everything within the bounds as equally good.
  first_day date;
  last_day date;
  -- Messages that wait for another call.
  idle bigint[];
  -- Messages whose results are locked.
  settled bigint[];
begin
  -- Hops from lane to lane over the index: a lane with many receipts costs no more than one with few.
  with recursive above as (
    (select coalesce(x.account_id, x.tenant_id) as lane from receipts x
      where not x.waiting and coalesce(x.account_id, x.tenant_id) >= first_lane
      order by coalesce(x.account_id, x.tenant_id) limit 1)
    union all
    select (select coalesce(x.account_id, x.tenant_id) from receipts x
      where not x.waiting and coalesce(x.account_id, x.tenant_id) > a.lane
      order by coalesce(x.account_id, x.tenant_id) limit 1)
    from above a where a.lane is not null
  ), below as (
    (select coalesce(x.account_id, x.tenant_id) as lane from receipts x
      where not x.waiting and coalesce(x.account_id, x.tenant_id) < first_lane
      order by coalesce(x.account_id, x.tenant_id) limit 1)
    union all
    select (select coalesce(x.account_id, x.tenant_id) from receipts x
      where not x.waiting and coalesce(x.account_id, x.tenant_id) > b.lane
        and coalesce(x.account_id, x.tenant_id) < first_lane
      order by coalesce(x.account_id, x.tenant_id) limit 1)
    from below b where b.lane is not null
  )
  select array_agg(s.lane), array_agg(s.lanes), count(distinct s.tenant_id) into lanes, siblings, share from (
    select w.lane, coalesce(p.tenant_id, w.lane) as tenant_id, count(*) over (partition by coalesce(p.tenant_id, w.lane)) as lanes
    from (
      select a.lane from above a where a.lane is not null
      union all
      select b.lane from below b where b.lane is not null
      limit 2 * most
    ) w left join provider_accounts p on p.id = w.lane
    where coalesce(p.tenant_id, w.lane) <> all (without)
  ) s;
  share := ceil(most::float8 / greatest(share, 1));
  -- Locks no more of a tenant than its share, and more only if the other tenants have less than theirs.
  loop
    -- A tenant with many accounts gets no more turns than one with few.
    select array_agg(t.id order by t.turn, t.apply_at), count(*), bool_or(t.is_cut) into come, found, is_cut
    from (
      select d.id, d.apply_at, d.nth >= l.quota and l.quota < most as is_cut, row_number() over (partition by d.tenant_id order by d.nth, d.apply_at) as turn
      from (select u.lane, least(most, ceil(share::float8 / u.lanes)) as quota
        from unnest(lanes, siblings) as u (lane, lanes)) l,
      lateral (
        select y.id, y.tenant_id, y.apply_at, row_number() over (order by y.apply_at) as nth
        from (
          select x.id, x.tenant_id, x.apply_at from receipts x
          where not x.waiting and coalesce(x.account_id, x.tenant_id) = l.lane and x.apply_at <= at_now
          -- Ordered by the lane too, as the index is: under row-level security the planner does not see that all rows are of one
          -- lane, and would read and sort every receipt of it.
          order by coalesce(x.account_id, x.tenant_id), x.apply_at limit l.quota for update skip locked
        ) y
      ) d
    ) t;
    exit when found >= most or not coalesce(is_cut, false);
    share := 4 * share;
  end loop;
  -- Waiting receipts are found by their time. The tenants of those that have been due for longest take turns. Twice as many as fit
  -- are tried, because another transaction may hold the first ones.
  select array_agg(n.id order by n.turn, n.apply_at) filter (where n.tenant_id <> all (without)), count(*),
    array_agg(n.tenant_id) filter (where n.turn = 1 and n.tenant_id <> all (without))
  into again_ids, found, tenants from (
    select w.id, w.tenant_id, w.apply_at, row_number() over (partition by w.tenant_id order by w.apply_at) as turn from (
      select x.id, x.tenant_id, x.apply_at from receipts x where x.waiting and x.apply_at <= at_now
      order by x.apply_at limit 16 * most) w
  ) n;
  -- One tenant may have more than were looked at. Then the others are found by hops from tenant to tenant over an index, in a
  -- circle: `union` ends it where it began.
  if found >= 16 * most then
    with recursive circle as (
      select first_lane as tenant_id
      union
      select coalesce(
        (select x.tenant_id from receipts x where x.waiting and x.tenant_id > c.tenant_id order by x.tenant_id limit 1),
        (select x.tenant_id from receipts x where x.waiting order by x.tenant_id limit 1))
      from circle c
    )
    select array_agg(d.tenant_id), ceil(2 * most::float8 / greatest(count(*), 1)) into tenants, share from (
      select u.tenant_id from unnest(tenants) as u (tenant_id)
      union
      (select c.tenant_id from circle c where c.tenant_id <> all (without) limit 2 * most)
    ) d
    where exists (select from receipts x where x.waiting and x.tenant_id = d.tenant_id and x.apply_at <= at_now);
    -- Reads no more of a tenant than its share, and more only if the other tenants have less than theirs.
    loop
      select array_agg(d.id order by d.nth, d.apply_at), count(*), bool_or(d.nth >= share and share < 2 * most)
      into again_ids, found, is_cut
      from unnest(tenants) as u (tenant_id), lateral (
        select y.id, y.apply_at, row_number() over (order by y.apply_at) as nth from (
          select x.id, x.apply_at from receipts x where x.waiting and x.tenant_id = u.tenant_id and x.apply_at <= at_now
          order by x.tenant_id, x.apply_at limit least(share, 2 * most)
        ) y
      ) d;
      exit when found >= 2 * most or not coalesce(is_cut, false);
      share := 4 * share;
    end loop;
  end if;
  select array_agg(y.id) into due_again from (
    select x.id from unnest(again_ids[1:2 * most]) with ordinality as u (id, nth) join receipts x on x.id = any (array[u.id])
    where x.waiting and x.apply_at <= at_now order by u.nth limit most for update of x skip locked
  ) y;
  -- Waiting receipts get half of a batch, rounded up so that a single one is found beside others, and whatever these leave of it.
  again := least(coalesce(cardinality(due_again), 0), greatest((most + 1) / 2, most - coalesce(cardinality(come), 0)));
  batch := come[1:most - again] || due_again[1:again];
  if coalesce(cardinality(batch), 0) = 0 then
    return;
  end if;
  select min(r.purge_on), max(r.purge_on) into first_day, last_day from receipts r where r.id = any (batch);
  -- The message's own id takes precedence over the provider's, because an account may be shared with another system. A message is
  -- found only for an account that was called for it: a caller who can report to one account must not affect messages of another.
  select array_agg(p.id order by p.nth), array_agg(p.seq order by p.nth), array_agg(p.purge_on order by p.nth),
    array_agg(p.number order by p.nth) into ids, seqs, days, numbers
  from (
    select r.id, u.nth, m.seq, m.purge_on,
      -- The attempt with the provider's id, else the only attempt of the account that the report can belong to.
      coalesce(r.attempt, w.named, case
        when m.is_named or m.attempt = 1 then m.attempt
        when coalesce(m.accepted, 0) + w.unanswered = 1 then coalesce(w.number, m.attempt) end) as number
    from unnest(batch) with ordinality as u (id, nth)
    join receipts r on r.id = u.id
    left join lateral (
      select y.seq, y.purge_on, last_copy(s.seq, s.purge_on, s.status, s.attempt, s.sent_attempt, s.event_seq) as attempt,
        s.provider_message_id = r.provider_message_id as is_named,
        -- Segments may have ids of their own.
        (s.account_id = r.account_id and s.started_at is not null and (s.provider_message_id is null
          or r.provider_message_id is null or r.segment is not null))::integer as accepted
      from messages y left join lateral (select * from message_results x
        where x.seq = y.seq and x.purge_on = y.purge_on and x.purge_on between first_day and last_day limit 1) s on true
      where y.seq = r.message_seq and y.purge_on = r.purge_on and y.purge_on between first_day and last_day and y.tenant_id = r.tenant_id
        and (r.message_id is null or y.id = r.message_id)
        -- Tests break this (mutant: receipt-account): an account reports on messages it was called for, never on test messages.
        and (r.account_id is null or coalesce(
          case when s.account_id = r.account_id and s.status in ('sent', 'delivered', 'undelivered', 'unknown') then true end,
          (select true from live_messages l
            where l.seq = y.seq and l.status = 'sending' and l.account_id = r.account_id and not l.test),
          (select true from attempt_log a
            where a.message_seq = y.seq and a.purge_on = y.purge_on and a.purge_on between first_day and last_day
              and a.account_id = r.account_id and a.outcome <> 'not_started' limit 1)))
      limit 1
    ) m on true
    left join lateral (
      select count(*)::integer as unanswered, max(a.number) as number,
        max(a.number) filter (where a.provider_message_id = r.provider_message_id) as named
      from attempt_log a
      where coalesce(m.attempt, 2) > 1 and a.message_seq = m.seq and a.purge_on = m.purge_on
        and a.purge_on between first_day and last_day and a.account_id = r.account_id
        and (a.outcome = 'ambiguous' or a.outcome = 'accepted' and (a.provider_message_id is null
          or r.provider_message_id is null or r.segment is not null or a.provider_message_id = r.provider_message_id))
    ) w on true
  ) p;
  -- Receipts without the message's own id are searched for in every partition; most providers send none.
  if exists (select from unnest(ids, seqs) as u (id, seq) join receipts r on r.id = u.id
    where u.seq is null and r.provider_message_id is not null) then
    select array_agg(p.id order by p.nth), array_agg(p.seq order by p.nth), array_agg(p.purge_on order by p.nth),
      array_agg(p.number order by p.nth) into ids, seqs, days, numbers
    from (
      select u.id, u.nth, coalesce(u.seq, v.seq, g.seq) as seq, coalesce(u.day, v.purge_on, g.purge_on) as purge_on,
        coalesce(u.number, v.number, g.number) as number
      from unnest(ids, seqs, days, numbers) with ordinality as u (id, seq, day, number, nth)
      join receipts r on r.id = u.id
      left join lateral (
        select a.seq, a.purge_on, last_copy(a.seq, a.purge_on, a.status, a.attempt, a.sent_attempt, a.event_seq) as number
        from message_results a
        where u.seq is null and a.found_by_id and a.provider_message_id = r.provider_message_id
          and a.account_id = r.account_id and a.tenant_id = r.tenant_id
        order by a.sent_at desc limit 1
      ) v on true
      left join lateral (
        -- A message that went on to another account.
        select a.message_seq as seq, a.purge_on, a.number from attempt_log a
        where u.seq is null and v.seq is null and a.found_by_id and a.provider_message_id = r.provider_message_id
          and a.account_id = r.account_id and a.tenant_id = r.tenant_id
        order by a.ended_at desc limit 1
      ) g on true
    ) p;
  end if;
  select min(u.day), max(u.day) into first_day, last_day from unnest(days) as u (day);
  -- If a claim comes first, the receipt waits for the end of the call.
  select array_agg(x.seq) into idle from (
    select l.seq from live_messages l where l.seq = any (seqs) and l.status <> 'sending' order by l.seq
    for update skip locked) x;
  select array_agg(s.seq) into settled
  from (select distinct u.seq, u.day from unnest(seqs, days) as u (seq, day) where u.seq is not null order by u.seq) u,
  lateral (select x.seq from message_results x
    where x.seq = u.seq and x.purge_on = u.day and x.purge_on between first_day and last_day limit 1 for update) s;
  return query
    with matched as materialized (
      -- A message without a state was purged while this transaction waited for its result: it has no history to add to.
      select r.*, case when coalesce(s.seq, l.seq) is not null then u.seq end as seq, u.day, u.number, u.nth, s.status, s.final,
        last_copy(s.seq, s.purge_on, s.status, s.attempt, s.sent_attempt, s.event_seq) as last_attempt, s.provider,
        s.account_id as result_account, s.failure as failure_shown, s.segment_states, s.partial, s.late_bounce, s.engagement as engaged,
        l.seq is not null as is_live, l.status as live_status, l.provider as live_provider, l.ambiguous > 0 as is_doubtful,
        -- After a call without an answer: the last such call, as in `last_copy`. Later attempts that were refused left no copy.
        coalesce(case when l.ambiguous > 0 and l.attempt > 1 then last_unanswered(l.seq, l.purge_on) end, l.attempt) as live_attempt,
        -- Its result was stored while this transaction waited for others, and is not locked here.
        s.seq is not null and array_position(settled, s.seq) is null as has_just_ended
      from unnest(ids, seqs, days, numbers) with ordinality as u (id, seq, day, number, nth)
      join receipts r on r.id = u.id
      left join lateral (select * from message_results x
        where x.seq = u.seq and x.purge_on = u.day and x.purge_on between first_day and last_day limit 1) s on true
      left join lateral (select * from live_messages x where s.seq is null and x.seq = u.seq) l on true
    ), crowd as materialized (
      select c.account_id, (select count(*) from (
        select from receipts x where x.waiting and x.account_id = c.account_id
        -- In the order of the index that leads to the account's rows.
        order by x.account_id, x.provider_message_id limit waiting_max + 1) w)::integer as waiting
      from (select distinct x.account_id from matched x where x.is_live or x.has_just_ended or x.seq is null) c
      where c.account_id is not null
    )
    select r.id, r.tenant_id, r.account_id,
      coalesce(case when r.account_id is null or r.result_account = r.account_id then r.provider end,
        (select p.provider from provider_accounts p where p.id = r.account_id), r.provider, r.live_provider, 'unknown'),
      r.number, r.receipt, r.temporary, r.failure, r.segment, r.engagement, r.provider_status, r.provider_message_id,
      r.await_ms, r.verified, r.asked,
      floor(extract(epoch from case when r.happened_at between m.enqueued_at and r.received_at then r.happened_at
        else r.received_at end) * 1000)::bigint, r.report_key,
      r.traceparent, m.traceparent, floor(extract(epoch from at_now - r.received_at) * 1000)::bigint, r.waiting,
      case when r.is_live or r.has_just_ended or r.seq is null then
        (select c.waiting from crowd c where c.account_id = r.account_id) end,
      r.seq, r.day, r.has_just_ended or (r.is_live and array_position(idle, r.seq) is null), coalesce(r.is_doubtful, false),
      r.report_key is not null and exists (select from event_log e
        where e.message_seq = r.seq and e.purge_on = r.day and e.purge_on between first_day and last_day and e.report_key = r.report_key),
      coalesce(r.status, r.live_status), r.final, coalesce(r.last_attempt, r.live_attempt), r.failure_shown, m.segments,
      r.segment_states, r.partial, r.late_bounce, r.engaged
    from matched r
    left join lateral (select x.segments, x.traceparent, x.enqueued_at from messages x
      where x.seq = r.seq and x.purge_on = r.day and x.purge_on between first_day and last_day limit 1) m on true
    order by r.nth;
end $$;

grant execute on function lock_receipts(integer, integer, uuid[]) to despatch_worker;
