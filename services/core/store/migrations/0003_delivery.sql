-- The delivery path: claim, complete, sweep, receipts. Only workers call these, always for batches.
-- Planning a statement over all partitions takes longer than running it for a batch, so the functions here keep one plan.
-- Every look-up is by key; the planner, which may first meet the tables empty, is not given other ideas.

-- What a worker gets for each message it has to act on. `action`:
--   send  claimed: the attempt row is committed with this transaction, call the provider
--   lost  an attempt whose lease ran out: settle it as ambiguous
--   more  no message: there is, or may be, more to find than was asked for
create type claimed_message as (
  action text,
  id uuid,
  purge_on date,
  seq bigint,
  tenant_id uuid,
  attempt integer,
  retries smallint,
  ambiguous smallint,
  provider_waits smallint,
  duplicate_risk boolean,
  channel text,
  address text,
  sender text,
  content jsonb,
  test boolean,
  segments smallint,
  delivery_guarantee text,
  enqueued_at timestamptz,
  expires_at timestamptz,
  traceparent text,
  request_id text,
  provider_id uuid,
  provider text,
  provider_status text,
  provider_version integer,
  discard boolean
);

-- A locked message that waits for a worker, and what is decided about it.
create type candidate as (
  id uuid,
  purge_on date,
  seq bigint,
  tenant_id uuid,
  status text,
  attempt integer,
  retries smallint,
  ambiguous smallint,
  provider_waits smallint,
  duplicate_risk boolean,
  worker text,
  lease_until timestamptz,
  next_attempt_at timestamptz,
  expires_at timestamptz,
  bound_provider_id uuid,
  bound_provider text,
  channel text,
  address text,
  sender text,
  content jsonb,
  priority smallint,
  test boolean,
  segments smallint,
  delivery_guarantee text,
  discard boolean,
  pinned_provider_id uuid,
  enqueued_at timestamptz,
  traceparent text,
  request_id text,
  -- send, hold, expire, no_route; wait and later are put off to `put_off_to`; skip is left for another call.
  decision text,
  provider_id uuid,
  provider text,
  provider_status text,
  provider_version integer,
  per_second integer,
  put_off_to timestamptz
);

-- Counts messages that left the backlog (sent, unknown or terminal), a locked row per tenant in id order.
create function count_finished(tenants uuid[]) returns void
language sql set search_path = despatch, pg_temp as $$
  insert into tenant_progress as p (tenant_id, finished)
  select t.id, count(*) from unnest(tenants) as t (id) group by t.id order by t.id
  on conflict (tenant_id) do update set finished = p.finished + excluded.finished
$$;

-- Ends messages that no provider will be called for. The caller holds the locks of their state rows.
create function end_unsent(ids uuid[], purges date[], to_status text, of_failure jsonb, of_source text) returns void
language plpgsql set search_path = despatch, pg_temp as $$
declare
  at_now timestamptz := clock_timestamp();
  tenants uuid[];
  seqs bigint[];
begin
  with done as (
    update message_states s
    set status = to_status, failure = coalesce(of_failure, s.failure), final = true, next_attempt_at = null,
      completed_at = at_now, updated_at = at_now
    from unnest(ids, purges) as u (id, purge) where s.id = u.id and s.purge_on = u.purge
    returning s.tenant_id, s.seq
  )
  select array_agg(tenant_id), array_agg(seq) into tenants, seqs from done;
  delete from due where seq = any (seqs);
  update messages m set content = null
  from unnest(ids, purges) as u (id, purge)
  where m.id = u.id and m.purge_on = u.purge and m.content_retention = 'discard';
  delete from message_contents c using unnest(ids, purges) as u (id, purge)
  where c.message_id = u.id and c.purge_on = u.purge and exists (
    select from messages m where m.id = u.id and m.purge_on = u.purge and m.content is null);
  insert into event_log (message_id, purge_on, tenant_id, type, source, at)
  select s.id, s.purge_on, s.tenant_id, 'message.' || to_status, of_source, at_now
  from unnest(ids, purges) as u (id, purge) join message_states s on s.id = u.id and s.purge_on = u.purge;
  perform count_finished(tenants);
end $$;

-- Puts messages of a suspended tenant aside. The caller holds the locks of their state rows.
create function hold(ids uuid[], purges date[]) returns void
language sql set search_path = despatch, pg_temp as $$
  with held as (
    update message_states s
    set status = 'held', held_from = s.status, held_at = clock_timestamp(), updated_at = clock_timestamp()
    from unnest(ids, purges) as u (id, purge) where s.id = u.id and s.purge_on = u.purge
    returning s.id, s.purge_on, s.tenant_id, s.seq
  ), aside as (
    update due d set due_at = 'infinity' from held h where d.seq = h.seq
  )
  insert into event_log (message_id, purge_on, tenant_id, type, source, at)
  select h.id, h.purge_on, h.tenant_id, 'message.held', 'system', clock_timestamp() from held h
$$;

-- Takes tokens of providers with a rate limit, in segments, shared by all workers; who gets none waits for the next
-- second. One message larger than the limit still passes, alone in its second.
create function take_provider_tokens(decided candidate[]) returns candidate[]
language plpgsql set search_path = despatch, pg_temp as $$
declare
  k record;
  spent provider_rates;
  this_second bigint;
  used_up integer;
  units integer;
  i integer;
begin
  for k in
    select x.provider_id, min(x.per_second) as per_second, array_agg(x.i order by x.i) as at
    from (select decided[n].provider_id, decided[n].per_second, n as i from generate_subscripts(decided, 1) n
      where decided[n].decision = 'send' and decided[n].per_second is not null) x
    group by x.provider_id order by x.provider_id
  loop
    insert into provider_rates values (k.provider_id, 0, 0) on conflict do nothing;
    select * into spent from provider_rates r where r.provider_id = k.provider_id for update;
    this_second := extract(epoch from clock_timestamp())::bigint;
    -- A second of the future: the clock has gone back, and what was taken counts for this one.
    used_up := case when spent.second >= this_second then spent.used else 0 end;
    foreach i in array k.at loop
      units := coalesce(decided[i].segments, 1);
      if used_up + units <= k.per_second or used_up = 0 then
        used_up := used_up + units;
      else
        decided[i].decision := 'wait';
        decided[i].put_off_to := to_timestamp(this_second + 1);
      end if;
    end loop;
    update provider_rates r set second = this_second, used = used_up where r.provider_id = k.provider_id;
  end loop;
  return decided;
end $$;

-- Locks messages and reads what a decision needs. What another transaction holds is being looked at by another worker
-- right now and is passed over. One retention week at a time: all other partitions are left out before the look-up
-- begins, which for a small batch is most of the work.
create function lock_candidates(ids uuid[], purges date[]) returns candidate[]
language plpgsql set search_path = despatch, pg_temp as $$
declare
  found candidate[] := '{}';
  day date;
begin
  for day in select distinct p from unnest(purges) as p order by p loop
    found := found || array(
      select row(s.id, s.purge_on, s.seq, s.tenant_id, s.status, s.attempt, s.retries, s.ambiguous, s.provider_waits,
        s.duplicate_risk, s.worker, s.lease_until, s.next_attempt_at, s.expires_at, s.provider_id, s.provider,
        m.channel, m.address, m.sender, m.content, m.priority, m.test, m.segments, m.delivery_guarantee,
        m.content_retention = 'discard', m.pinned_provider_id, m.enqueued_at, m.traceparent, m.request_id,
        null, null, null, null, null, null, null)::candidate
      from unnest(ids, purges) as u (id, purge)
      join message_states s on s.id = u.id and s.purge_on = day
      join messages m on m.id = u.id and m.purge_on = day
      where u.purge = day
      for update of s skip locked);
  end loop;
  return found;
end $$;

-- Decides and starts. The caller holds the locks of the state rows; all are `queued` or `deferred`.
-- A tenant's own rows decide: its suspension, its providers by age, the provider an ambiguous attempt bound it to.
-- At most `most` are started; what waits for a blocked provider is put off, so that it does not stand in the way.
-- What ended instead, as `expired` or `no_route`, is told as well.
create function start_attempts(waiting candidate[], most integer, by_worker text, lease_ms integer, blocked uuid[])
returns setof claimed_message
language plpgsql set search_path = despatch, pg_temp as $$
declare
  at_now timestamptz := clock_timestamp();
  decided candidate[];
  day date;
  k record;
begin
  decided := array(
    select row(c.id, c.purge_on, c.seq, c.tenant_id, c.status, c.attempt, c.retries, c.ambiguous, c.provider_waits,
      c.duplicate_risk, c.worker, c.lease_until, c.next_attempt_at, c.expires_at, c.bound_provider_id, c.bound_provider,
      c.channel, c.address, c.sender, c.content, c.priority, c.test, c.segments, c.delivery_guarantee,
      c.discard, c.pinned_provider_id, c.enqueued_at, c.traceparent, c.request_id,
      case when d.decision = 'send' and row_number() over (partition by d.decision order by c.priority, c.seq) > most
        then 'skip' else d.decision end,
      d.provider_id, d.provider, d.provider_status, d.provider_version, d.per_second, d.put_off_to)::candidate
    from unnest(waiting) c
    join tenants t on t.id = c.tenant_id
    left join lateral (
      select p.id, p.provider, p.status, p.version, p.rate_limit_per_second from providers p
      where not c.test and p.tenant_id = c.tenant_id and p.channel = c.channel and p.status not in ('disabled', 'deleted')
        and (c.pinned_provider_id is null or p.id = c.pinned_provider_id)
        and (c.ambiguous = 0 or p.id = c.bound_provider_id)
      order by p.seq limit 1
    ) p on true
    cross join lateral (select
      case
        when t.status <> 'active' then 'hold'
        when c.expires_at <= at_now then 'expire'
        when c.next_attempt_at > at_now then 'later'
        when p.id is null and not c.test then 'no_route'
        when p.id = any (blocked) then 'wait'
        else 'send'
      end as decision,
      p.id as provider_id, coalesce(p.provider, 'simulator-' || c.channel) as provider, p.status as provider_status,
      p.version as provider_version, p.rate_limit_per_second as per_second,
      case when c.next_attempt_at > at_now then c.next_attempt_at
        else at_now + interval '10 seconds' * (0.5 + random()) end as put_off_to
    ) d
    order by c.priority, c.seq);
  if exists (select from unnest(decided) d where d.decision = 'send' and d.per_second is not null) then
    decided := take_provider_tokens(decided);
  end if;

  for k in
    select d.decision, array_agg(d.id) as ids, array_agg(d.purge_on) as purges from unnest(decided) d
    where d.decision in ('hold', 'expire', 'no_route') group by d.decision
  loop
    case k.decision
      when 'hold' then perform hold(k.ids, k.purges);
      when 'expire' then
        perform end_unsent(k.ids, k.purges, 'expired', '{"class": "expired", "code": "expired", "retryable": false}', 'worker');
      else
        perform end_unsent(k.ids, k.purges, 'failed', '{"class": "no_route", "code": "no_route", "retryable": false}', 'worker');
    end case;
  end loop;
  update due set due_at = least(d.put_off_to, d.expires_at)
  from unnest(decided) d where d.decision in ('wait', 'later') and due.seq = d.seq;

  for day in select distinct d.purge_on from unnest(decided) d where d.decision = 'send' loop
    update message_states s
    set status = 'sending', attempt = d.attempt + 1, provider_id = d.provider_id, provider = d.provider,
      attempt_id = gen_random_uuid(), worker = by_worker, started_at = at_now,
      lease_until = at_now + make_interval(secs => lease_ms / 1000.0), next_attempt_at = null, updated_at = at_now
    from unnest(decided) d
    where d.decision = 'send' and d.purge_on = day and s.id = d.id and s.purge_on = day;
  end loop;
  return query
    select case d.decision when 'expire' then 'expired' else d.decision end, d.id, d.purge_on, d.seq, d.tenant_id,
      case d.decision when 'send' then d.attempt + 1 else d.attempt end, d.retries, d.ambiguous, d.provider_waits,
      d.duplicate_risk, d.channel, d.address, d.sender, case d.decision when 'send' then d.content end, d.test, d.segments,
      d.delivery_guarantee, d.enqueued_at, d.expires_at, d.traceparent, d.request_id, d.provider_id, d.provider, d.provider_status,
      d.provider_version, d.discard
    from unnest(decided) d where d.decision in ('send', 'expire', 'no_route');
end $$;

-- Claims the messages named by wake-ups. What another worker holds or has settled is passed over.
create function claim(ids uuid[], purges date[], by_worker text, lease_ms integer, blocked uuid[])
returns setof claimed_message
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  return query select * from start_attempts(
    array(select c from unnest(lock_candidates(ids, purges)) c where c.status in ('queued', 'deferred')),
    cardinality(ids), by_worker, lease_ms, blocked);
end $$;

-- Claims a tenant's messages that are due, or will be within `ahead_ms`: the way back from lost wake-ups, retry
-- timers, lost workers, receipts that never came, and from a queue that outgrew a worker's memory. With `again` also
-- what this worker has claimed and has not settled: its last claim may have been committed and its answer lost.
create function claim_due(for_tenant uuid, most integer, ahead_ms integer, by_worker text, lease_ms integer, blocked uuid[],
  again boolean)
returns setof claimed_message
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  -- In flight and blocked messages stand among those that can be started.
  scan integer := most + 50 + case when cardinality(blocked) > 0 then 500 else 0 end;
  found_ids uuid[];
  found_purges date[];
  found candidate[];
  waiting candidate[];
  at_limit boolean;
  -- Claimed by this worker, which never learned of it.
  unheard uuid[] := '{}';
begin
  select array_agg(d.message_id), array_agg(d.purge_on) into found_ids, found_purges from (
    select d.message_id, d.purge_on from due d
    where d.tenant_id = for_tenant and d.due_at <= at_now + make_interval(secs => ahead_ms / 1000.0)
    order by d.due_at limit scan) d;
  if found_ids is null then
    return;
  end if;
  at_limit := cardinality(found_ids) = scan;
  found := lock_candidates(found_ids, found_purges);
  waiting := array(select c from unnest(found) c where c.status in ('queued', 'deferred'));

  if at_limit or cardinality(waiting) > most then
    return query select * from json_populate_record(null::claimed_message, '{"action": "more"}');
  end if;

  if exists (select from unnest(found) c where c.status not in ('queued', 'deferred')) then
    if again then
      unheard := array(select c.id from unnest(found) c
        where c.status = 'sending' and c.worker = by_worker
          and c.lease_until > at_now + make_interval(secs => lease_ms / 2000.0));
    end if;
    -- In flight: look again when the lease is over. Settled otherwise: nothing left to look at.
    update due d set due_at = case c.status when 'held' then 'infinity' else c.lease_until + interval '1 second' end
    from unnest(found) c
    where d.seq = c.seq and (c.status = 'held' or (c.status = 'sending' and c.lease_until > at_now
      -- What is given out again below stays in sight: this answer may be lost as well.
      and c.id <> all (unheard)));
    delete from due d using unnest(found) c
    where d.seq = c.seq and c.status not in ('scheduled', 'queued', 'held', 'sending', 'deferred', 'sent');
    -- A receipt that never came.
    with quiet as (
      update message_states s
      set status = 'unknown', reason = 'receipt_timeout', updated_at = at_now
      from unnest(found) c, due d
      where c.status = 'sent' and s.id = c.id and s.purge_on = c.purge_on and d.seq = c.seq and d.due_at <= at_now
      returning s.id, s.purge_on, s.tenant_id, s.seq
    ), gone as (
      delete from due d using quiet q where d.seq = q.seq
    )
    insert into event_log (message_id, purge_on, tenant_id, type, source, details, at)
    select q.id, q.purge_on, q.tenant_id, 'message.unknown', 'worker', '{"reason": "receipt_timeout"}', at_now from quiet q;
    return query
      select 'lost', c.id, c.purge_on, c.seq, c.tenant_id, c.attempt, c.retries, c.ambiguous, c.provider_waits,
        c.duplicate_risk, c.channel, c.address, c.sender, null::jsonb, c.test, c.segments, c.delivery_guarantee,
        c.enqueued_at, c.expires_at, c.traceparent, c.request_id, c.bound_provider_id, c.bound_provider, null::text, null::integer,
        c.discard
      from unnest(found) c where c.status = 'sending' and c.lease_until <= at_now;
    return query
      select 'send', c.id, c.purge_on, c.seq, c.tenant_id, c.attempt, c.retries, c.ambiguous, c.provider_waits,
        c.duplicate_risk, c.channel, c.address, c.sender, c.content, c.test, c.segments, c.delivery_guarantee,
        c.enqueued_at, c.expires_at, c.traceparent, c.request_id, c.bound_provider_id, c.bound_provider, p.status, p.version,
        c.discard
      from unnest(found) c left join providers p on p.id = c.bound_provider_id
      where c.id = any (unheard);
  end if;
  return query select * from start_attempts(waiting, most, by_worker, lease_ms, blocked);
end $$;

-- Messages of a tenant that wait for a call and are due, or will be within `ahead_ms`: names alone, which no content can
-- make fail.
create function waiting_messages(for_tenant uuid, most integer, ahead_ms integer)
returns table (id uuid, purge_on date, priority smallint)
language sql security definer set search_path = despatch, pg_temp as $$
  select d.message_id, d.purge_on, m.priority from due d
  join message_states s on s.id = d.message_id and s.purge_on = d.purge_on
  join messages m on m.id = d.message_id and m.purge_on = d.purge_on
  where d.tenant_id = for_tenant and d.due_at <= clock_timestamp() + make_interval(secs => ahead_ms / 1000.0)
    and s.status in ('queued', 'deferred')
  order by d.due_at limit most
$$;

-- Ends a message that no claim can begin. Returns whether it was still waiting.
create function end_refused(of_id uuid, of_purge date) returns boolean
language plpgsql security definer set search_path = despatch, pg_temp as $$
begin
  perform from message_states s
  where s.id = of_id and s.purge_on = of_purge and s.status in ('queued', 'deferred') for update;
  if not found then
    return false;
  end if;
  perform end_unsent(array[of_id], array[of_purge], 'failed',
    '{"class": "unknown", "code": "unprocessable", "retryable": false}', 'worker');
  return true;
end $$;

create type completion as (
  id uuid,
  purge_on date,
  seq bigint,
  tenant_id uuid,
  attempt integer,
  -- The attempt's end.
  outcome text,
  outcome_reason text,
  failure jsonb,
  http_status smallint,
  provider_message_id text,
  sent_from text,
  -- The message's next state, as the domain decided it.
  status text,
  reason text,
  failure_shown jsonb,
  -- Delays, not instants: only this server's clock decides when something is due.
  next_attempt_ms bigint,
  retries smallint,
  ambiguous smallint,
  provider_waits smallint,
  duplicate_risk boolean,
  final boolean,
  -- Only with `sent`: how long to wait for a receipt.
  await_ms bigint,
  receipts jsonb,
  -- The content is to go as soon as no provider needs it.
  discard boolean
);

-- Records how attempts ended. A row counts only while its attempt is the message's current one and still open: a
-- worker that was paused past its lease changes nothing. Returns the ids that were applied.
create function complete(batch json) returns setof uuid
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  -- The planner takes an array for ten rows, and a set made of JSON for so many that it would rather read the table.
  -- Sorted, since the updates below may wait for each other.
  reported completion[] := array(
    select r from json_populate_recordset(null::completion, batch) r order by r.purge_on, r.id);
  rows completion[];
  applied uuid[] := '{}';
  day date;
begin
  for day in select distinct r.purge_on from unnest(reported) r order by 1 loop
    with ended as (
      update message_states s
      set status = r.status, reason = r.reason, failure = r.failure_shown, lease_until = null,
        -- `least` passes over nulls: without a next attempt there is none, not one at the expiry.
        next_attempt_at = case when r.next_attempt_ms is not null
          then least(at_now + make_interval(secs => r.next_attempt_ms / 1000.0), s.expires_at) end,
        retries = r.retries, ambiguous = r.ambiguous, provider_waits = r.provider_waits, duplicate_risk = r.duplicate_risk,
        final = r.final, provider_message_id = coalesce(r.provider_message_id, s.provider_message_id),
        sent_from = coalesce(r.sent_from, s.sent_from),
        sent_at = case when r.status = 'sent' then at_now else s.sent_at end,
        completed_at = case when r.status in ('sent', 'failed', 'unknown') and r.await_ms is null then at_now end,
        updated_at = at_now
      from unnest(reported) r
      where r.purge_on = day and s.id = r.id and s.purge_on = day and s.attempt = r.attempt and s.status = 'sending'
      returning s.id, s.attempt_id, s.attempt, s.tenant_id, s.provider_id, s.provider, s.worker, s.started_at,
        s.status, s.reason, s.failure as failure_shown, r.outcome, r.outcome_reason, r.failure, r.http_status,
        r.provider_message_id
    ), logged as (
      insert into attempt_log (id, message_id, purge_on, number, tenant_id, provider_id, provider, worker, outcome, reason,
        failure, http_status, provider_message_id, started_at, ended_at, message_status, message_reason, message_failure)
      select e.attempt_id, e.id, day, e.attempt, e.tenant_id, e.provider_id, e.provider, e.worker, e.outcome,
        e.outcome_reason, e.failure, e.http_status, e.provider_message_id, e.started_at, at_now, e.status, e.reason,
        e.failure_shown
      from ended e
    )
    select applied || coalesce(array_agg(e.id), '{}') into applied from ended e;
  end loop;
  rows := reported;
  if cardinality(applied) < cardinality(reported) then
    rows := array(select r from unnest(reported) r where r.id = any (applied));
    -- An answer that came after the lease: proof all the same that the provider accepted.
    insert into receipts (tenant_id, provider_id, message_id, purge_on, attempt, receipt, apply_at)
    select r.tenant_id, a.provider_id, r.id, r.purge_on, r.attempt, 'sent', at_now
    from unnest(reported) r
    join attempt_log a on a.message_id = r.id and a.purge_on = r.purge_on and a.number = r.attempt and a.outcome = 'ambiguous'
    where r.outcome = 'accepted' and r.id <> all (applied);
  end if;

  delete from due d using unnest(rows) r
  where d.seq = r.seq and r.status in ('sent', 'failed', 'unknown') and r.await_ms is null;
  update due d set due_at = at_now + make_interval(secs => coalesce(r.await_ms, r.next_attempt_ms, 0) / 1000.0)
  from unnest(rows) r
  where d.seq = r.seq and (r.await_ms is not null or r.status in ('queued', 'deferred'));

  if exists (select from unnest(rows) r where r.discard) then
    update messages m set content = null
    from unnest(rows) r
    where m.id = r.id and m.purge_on = r.purge_on and r.discard and r.status in ('sent', 'failed', 'unknown');
    delete from message_contents c using unnest(rows) r
    where c.message_id = r.id and c.purge_on = r.purge_on and r.discard and r.status in ('sent', 'failed', 'unknown');
  end if;

  if exists (select from unnest(rows) r where r.receipts is not null) then
    insert into receipts (tenant_id, provider_id, message_id, purge_on, attempt, receipt, temporary, failure, apply_at)
    select r.tenant_id, s.provider_id, r.id, r.purge_on, r.attempt, f.receipt, coalesce(f.temporary, false), f.failure,
      at_now + make_interval(secs => f."afterMs" / 1000.0)
    from unnest(rows) r
    join message_states s on s.id = r.id and s.purge_on = r.purge_on,
      jsonb_to_recordset(r.receipts) as f ("afterMs" integer, receipt text, temporary boolean, failure jsonb)
    where r.receipts is not null;
  end if;

  perform count_finished(array(select r.tenant_id from unnest(rows) r where r.status in ('sent', 'failed', 'unknown')));
  return query select unnest(applied);
end $$;

-- Receipts -----------------------------------------------------------------------------------------------------------
-- A receipt only raises a message's rank. Every one is appended to the event log, applied or not. One that overtook
-- its own attempt's record waits.

create function receipt_applies(from_status text, is_final boolean, receipt text) returns boolean
language sql immutable parallel safe as $$
  select case from_status
    when 'unknown' then true
    when 'sent' then receipt in ('delivered', 'undelivered')
    when 'undelivered' then receipt = 'delivered' and not is_final
    else false
  end
$$;

-- Applies receipts that are due. Returns the number looked at.
create function apply_receipts(most integer) returns integer
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  r receipts;
  s message_states;
  at_now timestamptz;
  applies boolean;
  seen integer := 0;
begin
  for r in select * from receipts where apply_at <= clock_timestamp() order by apply_at limit most for update skip locked loop
    seen := seen + 1;
    at_now := clock_timestamp();
    select * into s from message_states where id = r.message_id and purge_on = r.purge_on for update;
    if s.status = 'sending' then
      update receipts set apply_at = at_now + interval '1 second' where id = r.id;
      continue;
    end if;
    delete from receipts where id = r.id;
    continue when s.id is null;
    -- Only the attempt that failed for now may still turn out delivered.
    applies := receipt_applies(s.status, s.final, r.receipt) and (s.status <> 'undelivered' or s.attempt = r.attempt);
    insert into event_log (message_id, purge_on, tenant_id, type, source, applied, details, at)
    values (s.id, s.purge_on, s.tenant_id, 'message.' || r.receipt, 'receipt', applies,
      jsonb_strip_nulls(jsonb_build_object('attempt', r.attempt, 'failure', r.failure)), at_now);
    continue when not applies;
    update message_states set
      status = r.receipt,
      reason = null,
      failure = case when r.receipt = 'undelivered' then r.failure end,
      final = r.receipt = 'delivered' or (r.receipt = 'undelivered' and not r.temporary),
      sent_at = coalesce(sent_at, at_now),
      delivered_at = case when r.receipt = 'delivered' then at_now end,
      completed_at = case when r.receipt = 'sent' then completed_at else at_now end,
      updated_at = at_now
    where id = s.id and purge_on = s.purge_on;
    if r.receipt in ('delivered', 'undelivered') then
      delete from due where seq = s.seq;
    end if;
  end loop;
  return seen;
end $$;

-- Large contents -----------------------------------------------------------------------------------------------------

-- Null where there is none any more.
create function load_content(of_message uuid, of_purge date) returns text
language sql stable security definer set search_path = despatch, pg_temp as $$
  select c.content from message_contents c where c.message_id = of_message and c.purge_on = of_purge
$$;

-- Deletes contents whose messages were never accepted: refused by an api that could not say so any more. Long after any
-- accept has ended. Returns how many contents it has looked at.
create function settle_contents(most integer) returns integer
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  ids uuid[];
  purges date[];
begin
  select array_agg(x.message_id), array_agg(x.purge_on) into ids, purges from (
    select u.message_id, u.purge_on from unsettled_contents u where u.stored_at < now() - interval '15 minutes'
    order by u.stored_at limit most for update skip locked) x;
  delete from message_contents c using unnest(ids, purges) as u (id, purge)
  where c.message_id = u.id and c.purge_on = u.purge
    and not exists (select from messages m where m.id = u.id and m.purge_on = u.purge);
  delete from unsettled_contents where message_id = any (ids);
  return coalesce(cardinality(ids), 0);
end $$;

-- Sweep ----------------------------------------------------------------------------------------------------------------

-- Tenants that have something to do: `due` (claim_due), `hold` (suspended with due messages), `release` (active again
-- with messages held). Hops from tenant to tenant over the index, so a large backlog costs no more than a small one.
create function due_tenants() returns table (tenant_id uuid, task text)
language sql security definer set search_path = despatch, pg_temp as $$
  with recursive t as (
    (select d.tenant_id, d.due_at from due d order by d.tenant_id, d.due_at limit 1)
    union all
    select n.tenant_id, n.due_at from t, lateral (
      select d.tenant_id, d.due_at from due d where d.tenant_id > t.tenant_id order by d.tenant_id, d.due_at limit 1) n
  )
  select t.tenant_id, case when x.status = 'active' then 'due' else 'hold' end
  from t join tenants x on x.id = t.tenant_id where t.due_at <= clock_timestamp()
  union all
  select t.tenant_id, 'release' from t join tenants x on x.id = t.tenant_id
  where x.status = 'active' and exists (select from due d where d.tenant_id = t.tenant_id and d.due_at = 'infinity')
$$;

-- Puts aside a suspended tenant's waiting messages, up to `most` a call. Returns how many.
create function hold_tenant(for_tenant uuid, most integer) returns integer
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  ids uuid[];
  purges date[];
begin
  if not exists (select from tenants where id = for_tenant and status = 'suspended') then
    return 0;
  end if;
  select array_agg(x.id), array_agg(x.purge_on) into ids, purges from (
    select s.id, s.purge_on from due d join message_states s on s.id = d.message_id and s.purge_on = d.purge_on
    where d.tenant_id = for_tenant and d.due_at < 'infinity' and s.status in ('queued', 'deferred')
    -- Waits for claims under way, in the order that all who wait here take locks in.
    order by s.purge_on, s.id limit most for update of s) x;
  perform hold(ids, purges);
  return coalesce(cardinality(ids), 0);
end $$;

-- Gives back what was held, up to `most` a call: time in `held` does not count toward expiry. Returns how many.
create function release_tenant(for_tenant uuid, most integer) returns integer
language sql security definer set search_path = despatch, pg_temp as $$
  with picked as (
    select s.id, s.purge_on from due d join message_states s on s.id = d.message_id and s.purge_on = d.purge_on
    where d.tenant_id = for_tenant and d.due_at = 'infinity' and s.status = 'held'
      and exists (select from tenants t where t.id = for_tenant and t.status = 'active')
    limit most for update of s skip locked
  ), freed as (
    update message_states s
    set status = s.held_from, expires_at = s.expires_at + (clock_timestamp() - s.held_at), held_from = null, held_at = null,
      updated_at = clock_timestamp()
    from picked p where s.id = p.id and s.purge_on = p.purge_on
    returning s.id, s.purge_on, s.tenant_id, s.seq, s.status, s.next_attempt_at
  ), back as (
    update due d set due_at = coalesce(f.next_attempt_at, clock_timestamp()) from freed f where d.seq = f.seq
  ), logged as (
    insert into event_log (message_id, purge_on, tenant_id, type, source, at)
    select f.id, f.purge_on, f.tenant_id, 'message.released', 'system', clock_timestamp() from freed f
  )
  select count(*)::integer from freed
$$;

-- Provider accounts, as workers see them ---------------------------------------------------------------------------------

create function load_providers(ids uuid[])
returns table (id uuid, tenant_id uuid, provider text, config_public json, ciphertext text, secret_version integer,
  version integer, status text)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select p.id, p.tenant_id, p.provider, p.config_public, p.ciphertext, p.secret_version, p.version, p.status
  from providers p where p.id = any (ids) and p.status <> 'deleted'
$$;

-- Messages that wait for this provider to be mended are due again at once.
create function wake_deferred(for_provider uuid) returns void
language sql set search_path = despatch, pg_temp as $$
  with woken as (
    update message_states s set next_attempt_at = clock_timestamp() from providers p, due d
    where p.id = for_provider and d.tenant_id = p.tenant_id and d.due_at < 'infinity'
      and s.id = d.message_id and s.purge_on = d.purge_on
      and s.status = 'deferred' and s.provider_id = for_provider and s.reason = 'provider_not_ready'
    returning s.seq
  )
  update due d set due_at = clock_timestamp() from woken w where d.seq = w.seq
$$;

-- The same for the api, and for the transaction's tenant alone.
create function wake_waiting(for_provider uuid) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  select wake_deferred(p.id) from providers p where p.id = for_provider and p.tenant_id = current_tenant()
$$;

-- One authentication result of a send that used this version of the account; of another version it says nothing. Three
-- refusals in a row make an account invalid; one success makes it active. `why` is the reason of a refusal. Returns the
-- status that the account has moved to, null where it did not move.
create function note_provider_result(for_provider uuid, of_version integer, authenticated boolean, why text) returns text
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  p providers;
  moved text;
begin
  select * into p from providers where id = for_provider and version = of_version for update;
  if p.id is null then
    return null;
  end if;
  if authenticated then
    moved := case when p.status in ('unverified', 'invalid') then 'active' end;
    update providers set auth_failures = 0, status = coalesce(moved, status),
      status_reason = case when moved is null then status_reason end,
      verified_at = case when moved is null then verified_at else now() end, updated_at = now()
    where id = for_provider and (auth_failures > 0 or moved is not null);
    if p.status = 'invalid' then
      perform wake_deferred(for_provider);
    end if;
  else
    moved := case when p.status in ('unverified', 'active') and p.auth_failures >= 2 then 'invalid' end;
    update providers set auth_failures = auth_failures + 1, status = coalesce(moved, status),
      status_reason = case when moved is null then status_reason else why end,
      verified_at = case when moved is null then verified_at end, updated_at = now()
    where id = for_provider;
  end if;
  return moved;
end $$;

create function note_provider_health(for_provider uuid, to_health text) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  update providers set health = to_health, updated_at = now() where id = for_provider and health <> to_health
$$;

-- Hands out credential checks that were asked for. One that is not answered is handed out again after a while.
create function take_verifications(most integer) returns table (id uuid)
language sql security definer set search_path = despatch, pg_temp as $$
  with picked as (
    select p.id from providers p
    where p.verify_requested_at <= clock_timestamp() and p.status not in ('disabled', 'deleted')
    order by p.verify_requested_at limit most for update skip locked
  )
  update providers p set verify_requested_at = clock_timestamp() + interval '30 seconds'
  from picked where p.id = picked.id
  returning p.id
$$;

-- The answer of a credential check of this version of the account: `valid`, `invalid`, or `unknown` where the provider
-- could not be asked, which says nothing about the account. Ignored when the account has changed meanwhile: the change has
-- asked for a check of its own. Returns the status that the account has moved to.
create function note_verification(for_provider uuid, of_version integer, result text, why text) returns text
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  before text;
  moved text;
begin
  select p.status into before from providers p
  where p.id = for_provider and p.version = of_version and p.status not in ('disabled', 'deleted') for update;
  if before is null then
    return null;
  end if;
  moved := case when result = 'valid' and before in ('unverified', 'invalid') then 'active'
    when result = 'invalid' and before in ('unverified', 'active') then 'invalid' end;
  update providers set verify_requested_at = null, updated_at = now(), status = coalesce(moved, status),
    verification_at = now(), verification_result = result, verification_reason = why,
    status_reason = case when result = 'valid' then null
      when result = 'invalid' or before = 'unverified' then why else status_reason end,
    verified_at = case result when 'valid' then now() when 'unknown' then verified_at end,
    auth_failures = case when result = 'valid' then 0 else auth_failures end
  where id = for_provider;
  if result = 'valid' then
    perform wake_deferred(for_provider);
  end if;
  return moved;
end $$;

-- What the scheduler needs to know of tenants.
create function tenant_limits_of(ids uuid[]) returns table (tenant_id uuid, status text, plan text, limits jsonb)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select t.id, t.status, t.plan, l.limits from tenants t left join tenant_limits l on l.tenant_id = t.id
  where t.id = any (ids)
$$;

-- Totals for the gauges.
create function backlog_totals() returns table (backlog bigint, oldest_due_seconds double precision)
language sql stable security definer set search_path = despatch, pg_temp as $$
  select coalesce((select sum(accepted) from tenant_usage), 0)::bigint - coalesce((select sum(finished) from tenant_progress), 0)::bigint,
    greatest(0, extract(epoch from clock_timestamp() - (select min(due_at) from due where due_at < 'infinity')))::double precision
$$;
