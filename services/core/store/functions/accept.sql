-- Accepts a micro-batch of requests from any number of tenants in one call and one commit. Locks are always taken in the same
-- order (idempotency scopes, then tenants, each sorted), so that two api processes cannot deadlock. A refused request leaves no
-- row behind and is not counted.
--
-- `callers`: the keys of the requests, with the limits in force as the api knows them; requests without a key have no limit per
-- minute. `batch`: the requests, numbered by `ord`, each with the number of its caller. `keys`: {ord, tenant_id, scope,
-- fingerprint, response} of the requests with an idempotency key, null if there are none. `sweep_after_ms`: how long the sweep
-- leaves a message to its wake-up over the stream; 0 while the stream is known to be away.
-- Verdicts: accepted, replayed (with the stored `response`), mismatch, suspended, rate_limited, daily_limit_reached,
-- backlog_full. `warned` rows have no `ord` and carry an audit log entry: one for each tenant and level of its daily limit (80
-- and 100 %) that these messages are the first of the day to reach. Raises DS001 if a message would be stored in a partition that
-- is dropped too early, because the api computed the day from an outdated clock reading, and DS004 by `hold_contents`.
create or replace function accept(callers json, batch json, keys json, sweep_after_ms integer)
returns table (ord integer, verdict text, response json, retry_after integer, remaining integer)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
#variable_conflict use_column
declare
  now_at timestamptz;
  now_second bigint; today date;
  tenants_asking uuid[] := array(select distinct c.tenant_id from json_to_recordset(callers) as c (tenant_id uuid));
  -- Requests that are not admitted here: they are already settled, or wait for the first request with the same key.
  apart integer[] := '{}';
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

  -- While a transaction holds a tenant's lock, no other one reads or changes the counters of the tenant and its keys.
  -- Tests break this (mutant: quota-lock): concurrent acceptances cannot exceed the quota.
  perform lock_counters('accepted', tenants_asking);
  now_at := clock_timestamp();
  now_second := floor(extract(epoch from now_at));
  today := (now_at at time zone 'UTC')::date;

  with request as materialized (
    -- `nth`: position among the requests of its caller.
    select r.*, row_number() over (partition by r.caller order by r.ord) as nth
    from json_to_recordset(batch) as r (
      ord integer, caller integer, seq bigint, purge_on date, id uuid, channel text, recipient text, address text,
      address_key bytea, sender text, content json, external_id text, category message_category, priority smallint, account_id uuid,
      pinned_account_id uuid, segments smallint, content_bytes integer, encoding text, delivery_guarantee delivery_guarantee,
      content_retention content_retention, metadata json, tags json, traceparent text, request_id text, batch_id uuid, parent_id uuid,
      route_version integer, route_skipped uuid[], enqueued_at timestamptz, expires_at timestamptz,
      -- `status`: `scheduled` for a message that waits until `send_at`, which has its own `retention_days`; else absent, and `send_at`
      -- too if the sender named no instant. `scheduled_at` is set if the clock of test messages gives a different instant.
      status text, send_at timestamptz, scheduled_at timestamptz, retention_days integer,
      -- Set if the sender named no expiry instant: the api's clock may be wrong, and a lifetime may be short.
      lifetime_ms bigint)
    where r.ord <> all (apart)
  ), caller as materialized (
    -- How many messages the caller's rate still permits this minute, and what is left of its tenant's day and backlog. The count
    -- of a past day is ignored. A day in the future was counted before the clock went back, and counts as today.
    select c.*, (case when c.calls_together > 0 then q.calls end)::integer as together, u.slot as usage_slot, u.day,
      case when u.day >= today then u.used else 0 end as used,
      case when u.day >= today then u.tested else 0 end as tested,
      case when u.day >= today then u.warned else 0 end as warned, (r.w).second as stored_second, a.slot, a.uses, a.second,
      a.counts, a.total, coalesce(t.status = 'active', false) as is_active,
      least(q.calls, greatest(c.rate_per_minute - a.total, 0))::integer as in_rate,
      coalesce(u.accepted, 0) as accepted, coalesce(u.scheduled, 0) as scheduled,
      coalesce(u.accepted, 0) - coalesce(p.finished, 0) as backlog
    from json_to_recordset(callers) as c (
      caller integer, tenant_id uuid, api_key_id uuid, test boolean, retention_days integer, rate_per_minute integer,
      messages_per_day bigint, backlog_max bigint, -- Those of the caller's mode: live or test.
      -- Set for calls that are only useful together, as in a batch that is accepted as a whole. Replays among them need no room.
      calls_together integer)
    join (select r.caller, count(*) as calls from request r group by r.caller) q on q.caller = c.caller
    left join tenants t on t.id = any (array[c.tenant_id])
    left join lateral (select * from tenant_usage x where x.tenant_id = c.tenant_id order by x.slot desc limit 1) u on true
    left join lateral (select x.finished from tenant_progress x where x.tenant_id = c.tenant_id order by x.slot desc limit 1) p on true
    left join lateral (select x as w from rate_windows x where x.subject = c.api_key_id order by x.slot desc limit 1) r on true,
    lateral rate_advance(coalesce(r.w, row(c.api_key_id, null, 0, null, 0, null)::rate_windows), now_second) a
  ), within_day as (
    -- Keys of one tenant share its backlog, and those of one mode its daily limit: each caller gets what the callers before it
    -- leave. Requests that are not admitted use up nothing.
    select c.*,
      case when c.is_active then least(c.in_rate, greatest(c.messages_per_day - case when c.test then c.tested else c.used end
        - coalesce(sum(c.in_rate) over before, 0), 0))::integer else 0 end as in_day
    from caller c
    window before as (partition by c.tenant_id, c.test order by c.caller rows between unbounded preceding and 1 preceding)
  ), admitted as materialized (
    select d.*, least(d.in_day, greatest(d.backlog_max - d.backlog - coalesce(sum(d.in_day) over before, 0), 0))::integer as calls
    from within_day d
    -- Live callers first: test messages that are refused, as they may fill a part of it only, take nothing from them.
    window before as (partition by d.tenant_id order by d.test, d.caller rows between unbounded preceding and 1 preceding)
  ), rated as materialized (
    select n.* from admitted g,
    lateral rate_count(row(g.api_key_id, g.slot, g.second, g.counts, g.total, g.uses)::rate_windows, g.calls) n
    -- After the clock went back the row is written too: it holds the counts' ages, which would otherwise restart at each call.
    where g.api_key_id is not null and (g.calls > 0 or g.second < g.stored_second)
  ), rated_on as (
    -- `= any (array[…])` instead of `=`, here and for other tables: for an equality of columns the planner may choose a hash or
    -- merge join, which reads the whole index.
    update rate_windows x set second = n.second, counts = n.counts, total = n.total, slot = next_slot(x.slot, x.uses),
      uses = next_uses(x.uses)
    from rated n where x.subject = any (array[n.subject]) and x.slot = any (array[n.slot]) returning x.subject
  ), rated_anew as ( -- Also where `purge_rows` has just deleted a window as unused.
    insert into rate_windows (subject, second, counts, total, uses)
    select n.subject, n.second, n.counts, n.total, 1 from rated n where n.subject <> all (array(select o.subject from rated_on o))
  ), accepted as materialized (
    select r.*, g.tenant_id, g.api_key_id, g.test,
      case when r.status = 'scheduled' then coalesce(r.retention_days, g.retention_days) end as days_kept
    from request r join admitted g on g.caller = r.caller where r.nth <= g.calls
  ), used as materialized (
    -- Each level is reported once a day, even if the limit is changed meanwhile: by a refusal if it is now below what was used.
    select g.*, g.was_scheduled + coalesce(s.calls, 0) as scheduled,
      greatest(g.warned, limit_percent((g.used + g.counting)::bigint, g.day_limit)) as warns from (
      select a.tenant_id, min(a.messages_per_day) filter (where not a.test) as day_limit, min(a.warned) as warned,
        min(a.usage_slot) as slot, min(a.day) as day, min(a.used) as used, min(a.tested) as tested, min(a.accepted) as accepted,
        min(a.scheduled) as was_scheduled, sum(a.calls) as calls,
        -- Tests break this (mutant: counted-each): each message of a batch counts.
        coalesce(sum(a.calls) filter (where not a.test), 0) as counting,
        coalesce(sum(a.calls) filter (where a.test), 0) as testing,
        bool_or(a.is_active and not a.test and a.in_day < a.in_rate) as is_short
      from admitted a group by a.tenant_id
    ) g
    left join (select x.tenant_id, count(*) as calls from accepted x where x.status = 'scheduled' group by x.tenant_id) s using (tenant_id)
    where g.calls > 0 or g.day > today or g.is_short and g.warned < 100
  ), used_on as (
    update tenant_usage x set day = today, used = g.used + g.counting, tested = g.tested + g.testing, warned = g.warns,
      accepted = g.accepted + g.calls, scheduled = g.scheduled, slot = next_slot(x.slot, x.uses), uses = next_uses(x.uses)
    from used g where x.tenant_id = any (array[g.tenant_id]) and x.slot = any (array[g.slot])
  ), used_anew as (
    insert into tenant_usage (tenant_id, day, uses, used, tested, warned, accepted, scheduled) select g.tenant_id, today, 1,
      g.used + g.counting, g.tested + g.testing, g.warns, g.accepted + g.calls, g.scheduled from used g where g.slot is null
  ), stored as (
    insert into messages (seq, purge_on, id, tenant_id, api_key_id, channel, recipient, address, sender, content,
      external_id, category, priority, test, pinned_account_id, segments, encoding, delivery_guarantee,
      content_retention, metadata, tags, traceparent, request_id, batch_id, parent_id, route_version, route_skipped, scheduled_at, enqueued_at)
    select a.seq, a.purge_on, a.id, a.tenant_id, a.api_key_id, a.channel, a.recipient, nullif(a.address, a.recipient), a.sender, a.content,
      a.external_id, a.category, a.priority, a.test, a.pinned_account_id, a.segments, a.encoding, a.delivery_guarantee,
      a.content_retention, a.metadata, a.tags, a.traceparent, a.request_id, a.batch_id, a.parent_id, a.route_version,
      a.route_skipped, case when a.status = 'scheduled' then coalesce(a.scheduled_at, a.send_at) end, a.enqueued_at from accepted a
  ), queued as (
    insert into live_messages (seq, purge_on, tenant_id, account_id, due_at, status, priority, channel, test, pinned,
      marketing, address_key, segments, content_bytes, next_attempt_at, expires_at, updated_at, retention_days)
    select a.seq, a.purge_on, a.tenant_id, a.account_id, -- No wake-up is published for scheduled messages, so that they need no time for it:
      case when a.status = 'scheduled' then greatest(a.send_at, now_at)
        else greatest(a.send_at, now_at + make_interval(secs => sweep_after_ms / 1000.0)) end,
      coalesce(a.status, 'queued'), case when a.status = 'scheduled' then a.priority + 3 else a.priority end, a.channel, a.test,
      a.pinned_account_id is not null, a.category = 'marketing', a.address_key, a.segments, a.content_bytes,
      case when a.status = 'scheduled' or a.send_at > now_at then a.send_at end, -- By the database's clock, whatever the api's clock says.
      -- A lifetime starts at the time given in the 202, unless the clock that produced that time is wrong.
      case when a.lifetime_ms is null or a.enqueued_at between now_at - interval '5 s' and now_at + interval '5 s' then a.expires_at
        else now_at + make_interval(secs => a.lifetime_ms / 1000.0) end, a.enqueued_at, a.days_kept
    from accepted a
  ), noted as (
    insert into usage_moves (at, purge_on, became, seqs)
    select now_at, a.purge_on, 'in_progress', array_agg(a.seq) from accepted a where not a.test group by a.purge_on
  )
  select array_agg(s.ord) as ords, array_agg(s.verdict) as verdicts, array_agg(s.remaining) as remainings,
    array_agg(case s.verdict
      when 'rate_limited' then s.rate_wait
      when 'daily_limit_reached' then greatest(1, ceil(extract(epoch from (today + 1)::timestamp at time zone 'UTC' - now_at)))::integer
      when 'backlog_full' then 5 end) as retries,
    bool_or(s.is_too_early) as is_too_early, (select jsonb_agg(u) from used u where u.warns > u.warned) as crossed,
    array_agg(s.tenant_id) filter (where s.verdict = 'accepted') as tenant_ids, array_agg(s.seq) filter (where s.verdict = 'accepted') as seqs,
    array_agg(s.purge_on) filter (where s.verdict = 'accepted') as days, array_agg(s.seq) filter (where s.verdict = 'accepted' and s.is_apart) as apart
  into settled
  from (
    select r.ord, g.tenant_id, r.seq, r.purge_on, r.content -> 'storedBytes' is not null as is_apart, greatest(g.rate_per_minute - g.total - r.nth, 0)::integer as remaining,
      r.purge_on < purge_day(greatest(now_at - interval '10 minutes', case when r.status = 'scheduled' then r.send_at end),
        coalesce(r.retention_days, g.retention_days)) as is_too_early,
      case
        when r.nth <= g.calls then 'accepted' when r.nth > g.in_rate then 'rate_limited' when not g.is_active then 'suspended'
        when r.nth > g.in_day then 'daily_limit_reached'
        else 'backlog_full'
      end as verdict,
      case when r.nth > g.in_rate then -- Of calls that are refused together none is counted.
        rate_retry_after(rate_count(row(g.api_key_id, g.slot, g.second, g.counts, g.total, g.uses)::rate_windows,
          case when g.together is null then g.calls else 0 end), g.rate_per_minute - coalesce(g.together, 1) + 1) end as rate_wait
    from request r join admitted g on g.caller = r.caller
  ) s;
  if settled.is_too_early then
    raise exception 'a message is stored under a day that is too early' using errcode = 'DS001';
  end if;
  perform hold_contents(settled.apart) where settled.apart is not null;
  perform note_changes(settled.tenant_ids, settled.seqs, settled.days, null);
  if settled.crossed is not null then
    return query select null::integer, 'warned', w, null::integer, null::integer from warn_of_limits(settled.crossed) w;
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
