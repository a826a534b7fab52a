-- The accept path: one call, one commit, for a whole micro-batch of requests from any number of tenants. Locks are always
-- taken in the same order (idempotency scopes, then tenants, each sorted), so that two api processes cannot deadlock. A
-- refused request leaves nothing behind and counts nowhere.
--
-- `callers`: the keys that the requests came with, and the limits in force as the api knows them. `batch`: the requests,
-- numbered by `ord`, each with the number of its caller. `keys`: {ord, tenant_id, scope, fingerprint, response} of those
-- with an idempotency key, null where there are none. `sweep_after_ms`: how long the wake-up over the stream has before
-- the sweep may look; 0 where the stream is known to be away.
-- Verdicts: accepted, replayed (with the `response` that is stored), mismatch, suspended, rate_limited,
-- daily_limit_reached, backlog_full. Raises DS001 where a message would go to a partition that is dropped too early: the
-- api took it from a clock that it had read before.
create or replace function accept(callers json, batch json, keys json, sweep_after_ms integer)
returns table (ord integer, verdict text, response json, retry_after integer, remaining integer)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  now_at timestamptz;
  now_second bigint;
  today date;
  tenants_asking uuid[] := array(select distinct c.tenant_id from json_to_recordset(callers) as c (tenant_id uuid));
  -- Requests that are not to be admitted: they are settled, or wait for the first one with their key.
  apart integer[] := '{}';
  locked integer;
  settled record;
  v record;
begin
  if keys is not null then
    for v in select k.ord, k.verdict, k.response from idempotent_answers(keys) k loop
      apart := apart || v.ord;
      if v.verdict is not null then
        return query select v.ord, v.verdict, v.response, null::integer, null::integer;
      end if;
    end loop;
  end if;

  -- Whoever holds a tenant's row is alone with its counters and those of its keys. The first call of a tenant makes it.
  for look in 1 .. 2 loop
    -- Tests break this (mutant: quota-lock): concurrent acceptances cannot exceed the quota.
    perform from tenant_usage u where u.tenant_id = any (tenants_asking) order by u.tenant_id for update;
    get diagnostics locked = row_count;
    exit when locked = cardinality(tenants_asking);
    insert into tenant_usage (tenant_id) select t.id from tenants t where t.id = any (tenants_asking) order by t.id
    on conflict do nothing;
  end loop;
  now_at := clock_timestamp();
  now_second := floor(extract(epoch from now_at));
  today := (now_at at time zone 'UTC')::date;

  with request as materialized (
    -- `nth` of its caller.
    select r.*, row_number() over (partition by r.caller order by r.ord) as nth
    from json_to_recordset(batch) as r (
      ord integer, caller integer, seq bigint, purge_on date, id uuid, channel text, recipient text, address text,
      sender text, content jsonb, external_id text, category text, priority smallint, account_id uuid,
      pinned_account_id uuid, segments smallint, content_bytes integer, encoding text, delivery_guarantee text,
      content_retention text,
      metadata jsonb, tags text[], traceparent text, request_id text, enqueued_at timestamptz, expires_at timestamptz,
      -- Where the sender named no instant: the clock of an api may be wrong, and a lifetime is short.
      lifetime_ms bigint)
    where r.ord <> all (apart)
  ), caller as materialized (
    -- What a caller's minute has room for, and what its tenant's day and backlog leave. A day that is over counts no more.
    -- One that is still to come was counted before the clock went back: it counts as today.
    select c.*, u.day, case when u.day < today then 0 else u.used end as used, w.second as stored_second, a.second,
      a.counts, a.total, coalesce(t.status = 'active' and u.tenant_id is not null, false) as is_active,
      least(q.calls, greatest(c.rate_per_minute - a.total, 0))::integer as in_rate,
      u.accepted - coalesce(p.finished, 0) as backlog
    from json_to_recordset(callers) as c (
      caller integer, tenant_id uuid, api_key_id uuid, test boolean, retention_days integer, rate_per_minute integer,
      messages_per_day bigint, backlog_max bigint)
    join (select r.caller, count(*) as calls from request r group by r.caller) q on q.caller = c.caller
    left join tenants t on t.id = c.tenant_id
    left join tenant_usage u on u.tenant_id = c.tenant_id
    left join tenant_progress p on p.tenant_id = c.tenant_id
    left join rate_windows w on w.subject = c.api_key_id,
    lateral rate_advance(coalesce(w, row(c.api_key_id, 0, null, 0)::rate_windows), now_second) a
  ), within_day as (
    -- Keys of one tenant share its day and its backlog: each has what those before it leave. What is not admitted takes
    -- no place.
    select c.*,
      case when c.is_active and c.test then c.in_rate
        when c.is_active then least(c.in_rate, greatest(c.messages_per_day - c.used
          - coalesce(sum(c.in_rate) filter (where not c.test) over before, 0), 0))::integer
        else 0 end as in_day
    from caller c
    window before as (partition by c.tenant_id order by c.caller rows between unbounded preceding and 1 preceding)
  ), admitted as materialized (
    select d.*, least(d.in_day, greatest(d.backlog_max - d.backlog - coalesce(sum(d.in_day) over before, 0), 0))::integer as calls
    from within_day d
    window before as (partition by d.tenant_id order by d.caller rows between unbounded preceding and 1 preceding)
  ), rated as (
    insert into rate_windows as x (subject, second, counts, total)
    select n.subject, n.second, n.counts, n.total
    from admitted g, lateral rate_count(row(g.api_key_id, g.second, g.counts, g.total)::rate_windows, g.calls) n
    -- Of a clock that went back the ages are kept, or they would begin anew with every look.
    where g.calls > 0 or g.second < g.stored_second
    on conflict (subject) do update set second = excluded.second, counts = excluded.counts, total = excluded.total
  ), used as (
    update tenant_usage x set day = today, used = g.used + g.counting, accepted = x.accepted + g.calls
    from (
      select a.tenant_id, min(a.day) as day, min(a.used) as used, sum(a.calls) as calls,
        coalesce(sum(a.calls) filter (where not a.test), 0) as counting
      from admitted a group by a.tenant_id
    ) g where x.tenant_id = g.tenant_id and (g.calls > 0 or g.day > today)
  ), accepted as materialized (
    select r.*, g.tenant_id, g.api_key_id, g.test
    from request r join admitted g on g.caller = r.caller where r.nth <= g.calls
  ), stored as (
    insert into messages (seq, purge_on, id, tenant_id, api_key_id, channel, recipient, address, sender, content,
      external_id, category, priority, test, pinned_account_id, segments, encoding, delivery_guarantee,
      content_retention, metadata, tags, traceparent, request_id, enqueued_at)
    select a.seq, a.purge_on, a.id, a.tenant_id, a.api_key_id, a.channel, a.recipient, a.address, a.sender, a.content,
      a.external_id, a.category, a.priority, a.test, a.pinned_account_id, a.segments, a.encoding, a.delivery_guarantee,
      a.content_retention, a.metadata, a.tags, a.traceparent, a.request_id, a.enqueued_at
    from accepted a
  ), queued as (
    insert into live_messages (seq, purge_on, tenant_id, account_id, due_at, status, priority, channel, test, pinned,
      segments, content_bytes, expires_at, updated_at)
    select a.seq, a.purge_on, a.tenant_id, a.account_id, now_at + make_interval(secs => sweep_after_ms / 1000.0), 'queued', a.priority, a.channel, a.test,
      a.pinned_account_id is not null, a.segments, a.content_bytes,
      -- A lifetime counts from the moment that the 202 tells, unless the clock that told it is wrong.
      case when a.lifetime_ms is null or a.enqueued_at between now_at - interval '5 s' and now_at + interval '5 s' then a.expires_at
        else now_at + make_interval(secs => a.lifetime_ms / 1000.0) end, a.enqueued_at
    from accepted a
  )
  select array_agg(s.ord) as ords, array_agg(s.verdict) as verdicts, array_agg(s.remaining) as remainings,
    array_agg(case s.verdict
      when 'rate_limited' then s.rate_retry_after
      when 'daily_limit_reached' then greatest(1, ceil(extract(epoch from (today + 1)::timestamp at time zone 'UTC' - now_at)))::integer
      when 'backlog_full' then 5 end) as retries,
    bool_or(s.is_too_early) as is_too_early
  into settled
  from (
    select r.ord, greatest(g.rate_per_minute - g.total - r.nth, 0)::integer as remaining,
      r.purge_on < purge_day(now_at - interval '10 minutes', g.retention_days) as is_too_early,
      case
        when r.nth <= g.calls then 'accepted'
        when r.nth > g.in_rate then 'rate_limited'
        when not g.is_active then 'suspended'
        when r.nth > g.in_day then 'daily_limit_reached'
        else 'backlog_full'
      end as verdict,
      case when r.nth > g.in_rate then
        rate_retry_after(row(g.api_key_id, g.second, g.counts, g.total)::rate_windows, g.rate_per_minute) end as rate_retry_after
    from request r join admitted g on g.caller = r.caller
  ) s;
  if settled.is_too_early then
    raise exception 'a message is stored under a day that is too early' using errcode = 'DS001';
  end if;
  return query
    select s.ord, s.verdict, null::json, s.retry_after, s.remaining
    from unnest(settled.ords, settled.verdicts, settled.retries, settled.remainings) as s (ord, verdict, retry_after, remaining);

  if keys is not null then
    return query select f.ord, f.verdict, f.response, f.retry_after, null::integer
    from idempotent_followers(keys, settled.ords, settled.verdicts, settled.retries) f;
  end if;
end $$;

grant execute on function accept(json, json, json, integer) to despatch_api;
