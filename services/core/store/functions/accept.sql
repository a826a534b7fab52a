-- The accept path: one call, one commit, for a whole micro-batch of requests from any number of tenants. Locks are always
-- taken in the same order (idempotency scopes, rate windows, tenants, each sorted), so that two api processes cannot
-- deadlock. A refused request leaves nothing behind and counts nowhere.
--
-- `batch`: the requests, numbered by `ord`. `keys`: {ord, tenant_id, scope, fingerprint, response} of those with an
-- idempotency key, null where there are none. `sweep_after_ms`: how long the wake-up over the stream has before the sweep
-- may look; 0 where the stream is known to be away.
-- Verdicts: accepted, replayed (with the `response` that is stored), mismatch, suspended, rate_limited,
-- daily_limit_reached, backlog_full. Raises DS001 where a message would go to a partition that is dropped too early: the
-- api took it from a clock that it had read before.
create or replace function accept(batch json, keys json, sweep_after_ms integer)
returns table (ord integer, verdict text, response json, retry_after integer, remaining integer)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_column
declare
  now_at timestamptz := clock_timestamp();
  now_second bigint := floor(extract(epoch from now_at));
  today date := (now_at at time zone 'UTC')::date;
  until_tomorrow integer := greatest(1, ceil(extract(epoch from (today + 1)::timestamp at time zone 'UTC' - now_at)));
  swept_at timestamptz := now_at + make_interval(secs => sweep_after_ms / 1000.0);
  -- Requests that are not to be admitted: they are settled, or wait for the first one with their key.
  apart integer[] := '{}';
  -- Those with an idempotency key, by `ord`.
  verdicts text[] := '{}';
  retries integer[] := '{}';
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

  -- The first call of a key or a tenant finds no counters: they are made, and looked for again. Where a clean-up takes
  -- them away each time, nothing has been promised yet.
  for look in 1 .. 3 loop
    with request as materialized (
      select * from json_to_recordset(batch) as r (
        ord integer, seq bigint, purge_on date, id uuid, tenant_id uuid, api_key_id uuid, channel text, recipient text,
        address text, sender text, content jsonb, external_id text, category text, priority smallint, test boolean,
        account_id uuid, pinned_account_id uuid, segments smallint, encoding text, delivery_guarantee text,
        content_retention text, metadata jsonb, tags text[], traceparent text, request_id text,
        enqueued_at timestamptz, expires_at timestamptz,
        -- Where the sender named no instant: the clock of an api may be wrong, and a lifetime is short.
        lifetime_ms bigint,
        -- Limits in force, as the api knows them.
        retention_days integer, rate_per_minute integer, messages_per_day bigint, backlog_max bigint)
      where r.ord <> all (apart)
    ), rate as materialized (
      -- Requests per minute, a window per key.
      select w.subject, w.second as stored_second, a.second, a.counts, a.total
      from (
        select x as stored from rate_windows x where x.subject = any (array(select distinct r.api_key_id from request r))
        order by x.subject for update
      ) locked, lateral rate_advance(locked.stored, now_second) a, lateral (select (locked.stored).*) w
    ), rated as materialized (
      select r.ord, r.api_key_id, r.tenant_id, r.test, r.messages_per_day, r.backlog_max, r.rate_per_minute,
        r.retention_days, r.purge_on, k.subject is not null as is_known,
        min(r.rate_per_minute) over of_key - k.total - row_number() over of_key as remaining
      from request r left join rate k on k.subject = r.api_key_id
      window of_key as (partition by r.api_key_id order by r.ord range between unbounded preceding and unbounded following)
    ), usage as materialized (
      -- Suspension, the day's quota and the backlog, a row per tenant. A day that is over counts no more. One that is still
      -- to come was counted before the clock went back: it counts as today.
      select u.tenant_id, u.day, case when u.day < today then 0 else u.used end as used,
        t.status = 'active' as is_active, u.accepted - coalesce(p.finished, 0) as backlog
      from (
        select * from tenant_usage x where x.tenant_id = any (array(select distinct r.tenant_id from rated r where r.remaining >= 0))
        order by x.tenant_id for update
      ) u
      join tenants t on t.id = u.tenant_id
      left join tenant_progress p on p.tenant_id = u.tenant_id
    ), dated as (
      -- The `nth` of the tenant that counts for its quota; those that are not admitted take no place.
      select r.ord, r.remaining, r.test, r.api_key_id, r.tenant_id, u.tenant_id is not null as is_known, u.is_active,
        min(r.backlog_max) over of_tenant - u.backlog as backlog_left,
        r.test or count(*) filter (where not r.test) over (partition by r.tenant_id order by r.ord)
          <= min(r.messages_per_day) over of_tenant - u.used as is_in_quota
      from rated r left join usage u on u.tenant_id = r.tenant_id
      where r.is_known and r.remaining >= 0
      window of_tenant as (partition by r.tenant_id)
    ), judged as materialized (
      select d.ord, d.remaining, d.test, d.api_key_id, d.tenant_id,
        case
          when not d.is_known then null
          when not d.is_active then 'suspended'
          when not d.is_in_quota then 'daily_limit_reached'
          when count(*) filter (where d.is_in_quota) over (partition by d.tenant_id order by d.ord) > d.backlog_left then 'backlog_full'
          else 'accepted'
        end as verdict
      from dated d
    ), counted as (
      update rate_windows x set second = c.second, counts = c.counts, total = c.total
      from (
        select a.subject, a.second, a.counts, a.total
        from rate k
        left join (
          select j.api_key_id, count(*)::integer as calls from judged j where j.verdict = 'accepted' group by j.api_key_id
        ) g on g.api_key_id = k.subject,
        lateral rate_count(row(k.subject, k.second, k.counts, k.total)::rate_windows, coalesce(g.calls, 0)) a
        -- Of a clock that went back the ages are kept, or they would begin anew with every look.
        where g.calls > 0 or k.second < k.stored_second
      ) c where x.subject = c.subject
    ), used as (
      update tenant_usage x set day = today, used = c.used + c.counting, accepted = x.accepted + c.calls
      from (
        select u.tenant_id, u.day, u.used, coalesce(g.calls, 0) as calls, coalesce(g.counting, 0) as counting
        from usage u
        left join (
          select j.tenant_id, count(*) as calls, count(*) filter (where not j.test) as counting
          from judged j where j.verdict = 'accepted' group by j.tenant_id
        ) g on g.tenant_id = u.tenant_id
      ) c where x.tenant_id = c.tenant_id and (c.calls > 0 or c.day > today)
    ), accepted as materialized (
      select r.* from judged j join request r on r.ord = j.ord where j.verdict = 'accepted'
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
        segments, expires_at, updated_at)
      select a.seq, a.purge_on, a.tenant_id, a.account_id, swept_at, 'queued', a.priority, a.channel, a.test, a.pinned_account_id is not null, a.segments,
        -- A lifetime counts from the moment that the 202 tells, unless the clock that told it is wrong.
        case when a.lifetime_ms is null or a.enqueued_at between now_at - interval '5 s' and now_at + interval '5 s' then a.expires_at
          else now_at + make_interval(secs => a.lifetime_ms / 1000.0) end, a.enqueued_at
      from accepted a
    )
    select array_agg(s.ord) as ords, array_agg(s.verdict) as verdicts, array_agg(s.remaining) as remainings,
      array_agg(case s.verdict
        when 'rate_limited' then s.retry_after
        when 'daily_limit_reached' then until_tomorrow
        when 'backlog_full' then 5 end) as retries,
      bool_and(s.verdict is not null) as are_all_known, bool_or(s.is_too_early) as is_too_early
    into settled
    from (
      select r.ord, greatest(r.remaining, 0)::integer as remaining,
        case when r.remaining < 0 then 'rate_limited' else j.verdict end as verdict,
        r.purge_on < d.earliest as is_too_early,
        case when r.remaining < 0 then (
          select rate_retry_after(row(k.subject, k.second, k.counts, k.total)::rate_windows, r.rate_per_minute)
          from rate k where k.subject = r.api_key_id) end as retry_after
      from rated r
      left join judged j on j.ord = r.ord
      join (
        select t.retention_days, purge_day(now_at - interval '10 minutes', t.retention_days) as earliest
        from (select distinct q.retention_days from request q) t
      ) d on d.retention_days = r.retention_days
    ) s;
    if settled.is_too_early then
      raise exception 'a message is stored under a day that is too early' using errcode = 'DS001';
    end if;
    return query
      select f.ord, f.verdict, null::json, f.retry_after, f.remaining
      from unnest(settled.ords, settled.verdicts, settled.retries, settled.remainings) as f (ord, verdict, retry_after, remaining)
      where f.verdict is not null;
    if keys is not null then
      for i in 1 .. coalesce(cardinality(settled.ords), 0) loop
        verdicts[settled.ords[i]] := settled.verdicts[i];
        retries[settled.ords[i]] := settled.retries[i];
      end loop;
    end if;
    exit when coalesce(settled.are_all_known, true);
    if look = 3 then
      raise exception 'a counter row went away' using errcode = 'serialization_failure';
    end if;
    apart := apart || array(select f.ord from unnest(settled.ords, settled.verdicts) as f (ord, verdict) where f.verdict is not null);
    insert into rate_windows (subject)
    select distinct r.api_key_id from json_to_recordset(batch) as r (api_key_id uuid) order by 1 on conflict do nothing;
    insert into tenant_usage (tenant_id)
    select distinct r.tenant_id from json_to_recordset(batch) as r (tenant_id uuid) order by 1 on conflict do nothing;
  end loop;
  if keys is not null then
    return query select f.ord, f.verdict, f.response, f.retry_after, null::integer from idempotent_followers(keys, verdicts, retries) f;
  end if;
end $$;

grant execute on function accept(json, json, integer) to despatch_api;
