-- The accept path: one call, one commit, for a whole micro-batch of requests from any number of tenants.
-- Locks are always taken in the same order (idempotency scopes, rate windows, tenant rows, each sorted), so that two
-- api processes cannot deadlock.
-- Verdicts: accepted, replayed (response), mismatch, suspended, rate_limited, daily_limit_reached, backlog_full.
-- A refused request leaves nothing behind and counts nowhere. `sweep_after_ms` is how long the wake-up over the
-- stream has before the sweep may look; 0 where the stream is known to be away.
create or replace function accept(batch json, sweep_after_ms integer)
returns table (ord integer, verdict text, response json, retry_after integer, remaining integer)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan set jit = off as $$
#variable_conflict use_column
declare
  rows accept_request[];
  verdicts text[];
  replies json[];
  retry integer[];
  remain integer[];
  released bytea[];
  -- Windows of the keys in the batch, and for each request which of them is its own.
  windows rate_windows[] := '{}';
  window_of integer[];
  passed integer[] := '{}';
  usages tenant_usage[] := '{}';
  k record;
  w rate_windows;
  u tenant_usage;
  i integer;
  n integer;
  free integer;
  left_over integer;
  has_keys boolean;
  now_at timestamptz;
  today date;
begin
  rows := array(select r from json_populate_recordset(null::accept_request, batch) r);
  -- The api took the partition from a clock that it had read before. With a stale one the row would go too early.
  if exists (select from unnest(rows) r where r.purge_on < purge_day(now() - interval '10 minutes', r.retention_days)) then
    raise exception 'a message is stored under a day that is too early' using errcode = 'DS001';
  end if;
  verdicts := array_fill(null::text, array[cardinality(rows)]);
  replies := array_fill(null::json, array[cardinality(rows)]);
  retry := array_fill(null::integer, array[cardinality(rows)]);
  remain := array_fill(null::integer, array[cardinality(rows)]);
  window_of := array_fill(null::integer, array[cardinality(rows)]);

  -- 1. Idempotency winners. A key that stands twice in one batch is won by its first request.
  has_keys := exists (select from unnest(rows) r where r.scope is not null);
  if has_keys then
    for k in
      with firsts as (
        select distinct on (r.scope) r.scope, r.tenant_id, r.fingerprint, r.response, r.ord
        from unnest(rows) r where r.scope is not null order by r.scope, r.ord
      ), taken as (
        select c.* from (select array_agg(decode(scope, 'hex') order by scope) s, array_agg(tenant_id order by scope) t,
          array_agg(decode(fingerprint, 'hex') order by scope) f, array_agg(response order by scope) p from firsts) a,
          claim_idempotency(a.s, a.t, a.f, 202::smallint, a.p) c
      )
      select r.ord, r.fingerprint, encode(t.fingerprint, 'hex') as stored, t.response
      from unnest(rows) r join taken t on t.scope = decode(r.scope, 'hex')
    loop
      verdicts[k.ord] := case when k.fingerprint = k.stored then 'replayed' else 'mismatch' end;
      replies[k.ord] := k.response;
    end loop;
    -- The same key again in this very batch: settled after its winner.
    for k in
      select r.ord from unnest(rows) r where r.scope is not null and exists (
        select from unnest(rows) f where f.scope = r.scope and f.ord < r.ord)
    loop
      verdicts[k.ord] := coalesce(verdicts[k.ord], 'follows');
    end loop;
  end if;

  -- 2. Requests per minute, a window per key. What passes is counted in step 4, when it is known to be accepted.
  -- The first call of a key finds no window: it is made, and looked for again. Where a clean-up takes it away each time,
  -- nothing has been promised yet.
  left_over := cardinality(array_positions(verdicts, null));
  for look in 1 .. 3 loop
    for k in
      select x as stored, g.allowed, g.ords
      from (
        select r.api_key_id, min(r.rate_per_minute) as allowed, array_agg(r.ord order by r.ord) as ords
        from unnest(rows) r where verdicts[r.ord] is null and window_of[r.ord] is null group by r.api_key_id
      ) g join rate_windows x on x.subject = g.api_key_id
      order by x.subject for update of x
    loop
      left_over := left_over - cardinality(k.ords);
      w := rate_advance(k.stored, extract(epoch from clock_timestamp())::bigint);
      if w.second < (k.stored).second then
        update rate_windows x set second = w.second, counts = w.counts where x.subject = w.subject;
      end if;
      windows := windows || w;
      passed := passed || 0;
      free := greatest(0, k.allowed - w.total);
      for n in 1 .. cardinality(k.ords) loop
        i := k.ords[n];
        window_of[i] := cardinality(windows);
        if n > free then
          verdicts[i] := 'rate_limited';
          retry[i] := rate_retry_after(w, k.allowed);
          remain[i] := 0;
        else
          remain[i] := free - n;
        end if;
      end loop;
    end loop;
    exit when left_over = 0;
    insert into rate_windows (subject)
    select distinct r.api_key_id from unnest(rows) r where verdicts[r.ord] is null and window_of[r.ord] is null
    order by 1 on conflict do nothing;
  end loop;
  if left_over > 0 then
    raise exception 'a counter row went away' using errcode = 'serialization_failure';
  end if;

  -- 3. Suspension, the day's quota, the backlog, a row per tenant.
  left_over := cardinality(array_positions(verdicts, null));
  for look in 1 .. 3 loop
    for k in
      select x as stored, t.status = 'active' as live, coalesce(p.finished, 0) as finished, g.per_day, g.backlog_max, g.ords
      from (
        select r.tenant_id, min(r.messages_per_day) as per_day, min(r.backlog_max) as backlog_max,
          array_agg(r.ord order by r.ord) as ords
        from unnest(rows) r where verdicts[r.ord] is null group by r.tenant_id
      ) g
      join tenant_usage x on x.tenant_id = g.tenant_id
      join tenants t on t.id = g.tenant_id
      left join tenant_progress p on p.tenant_id = g.tenant_id
      order by x.tenant_id for update of x
    loop
      left_over := left_over - cardinality(k.ords);
      u := k.stored;
      now_at := clock_timestamp();
      today := (now_at at time zone 'UTC')::date;
      if u.day < today then
        u.used := 0;
      elsif u.day > today then
        -- The clock has gone back. What was used counts today, and tomorrow no more, whatever becomes of this batch.
        update tenant_usage x set day = today where x.tenant_id = u.tenant_id;
      end if;
      u.day := today;
      foreach i in array k.ords loop
        if not k.live then
          verdicts[i] := 'suspended';
        elsif not rows[i].test and u.used >= k.per_day then
          verdicts[i] := 'daily_limit_reached';
          retry[i] := greatest(1, ceil(extract(epoch from (u.day + 1)::timestamp at time zone 'UTC' - now_at)))::integer;
        elsif u.accepted - k.finished >= k.backlog_max then
          verdicts[i] := 'backlog_full';
          retry[i] := 5;
        else
          verdicts[i] := 'accepted';
          u.accepted := u.accepted + 1;
          u.used := u.used + case when rows[i].test then 0 else 1 end;
          passed[window_of[i]] := passed[window_of[i]] + 1;
        end if;
      end loop;
      usages := usages || u;
    end loop;
    exit when left_over = 0;
    insert into tenant_usage (tenant_id)
    select distinct r.tenant_id from unnest(rows) r where verdicts[r.ord] is null order by 1 on conflict do nothing;
  end loop;
  if left_over > 0 then
    raise exception 'a counter row went away' using errcode = 'serialization_failure';
  end if;

  -- 4. Count what passed, drop the idempotency rows of what did not, write the rest.
  if 'accepted' = any (verdicts) then
    for i in 1 .. cardinality(windows) loop
      windows[i] := rate_count(windows[i], passed[i]);
    end loop;
    update rate_windows x set second = c.second, counts = c.counts, total = c.total
    from unnest(windows) c where x.subject = c.subject;
    update tenant_usage x set day = c.day, used = c.used, accepted = c.accepted
    from unnest(usages) c where x.tenant_id = c.tenant_id and x.accepted <> c.accepted;
  end if;

  if has_keys then
    select array_agg(decode(r.scope, 'hex')) into released from unnest(rows) r
    where r.scope is not null and verdicts[r.ord] not in ('accepted', 'replayed', 'mismatch', 'follows');
    if released is not null then
      delete from idempotency_keys x where x.scope = any (released)
        and x.generation in (idempotency_generation(clock_timestamp()), idempotency_generation(clock_timestamp()) - 7);
    end if;
    for k in
      select r.ord, f.ord as winner, r.fingerprint = f.fingerprint as same, f.response
      from unnest(rows) r
      join lateral (select f.* from unnest(rows) f where f.scope = r.scope order by f.ord limit 1) f on true
      where verdicts[r.ord] = 'follows'
    loop
      if verdicts[k.winner] = 'accepted' then
        verdicts[k.ord] := case when k.same then 'replayed' else 'mismatch' end;
        replies[k.ord] := k.response;
      else
        verdicts[k.ord] := verdicts[k.winner];
        retry[k.ord] := retry[k.winner];
      end if;
    end loop;
  end if;

  if 'accepted' = any (verdicts) then
    with accepted as materialized (
      select r.*, now() + make_interval(secs => sweep_after_ms / 1000.0) as due_at from unnest(rows) r
      where verdicts[r.ord] = 'accepted'
    ), stored as (
      insert into messages (seq, purge_on, id, tenant_id, api_key_id, channel, recipient, address, sender, content,
        external_id, category, priority, test, pinned_provider_id, segments, encoding, delivery_guarantee,
        content_retention, metadata, tags, traceparent, request_id, enqueued_at)
      select a.seq, a.purge_on, a.id, a.tenant_id, a.api_key_id, a.channel, a.recipient, a.address, a.sender, a.content,
        a.external_id, a.category, a.priority, a.test, a.pinned_provider_id, a.segments, a.encoding, a.delivery_guarantee,
        a.content_retention, a.metadata, a.tags, a.traceparent, a.request_id, a.enqueued_at
      from accepted a
    )
    insert into live_messages (seq, purge_on, tenant_id, account_id, due_at, status, priority, channel, test, pinned,
      segments, expires_at, updated_at)
    select a.seq, a.purge_on, a.tenant_id, a.account_id, a.due_at, 'queued', a.priority, a.channel, a.test,
      a.pinned_provider_id is not null, a.segments,
      -- A lifetime counts from the moment that the 202 tells, unless the clock that told it is wrong.
      case when a.lifetime_ms is null or abs(extract(epoch from now() - a.enqueued_at)) < 5 then a.expires_at
        else now() + make_interval(secs => a.lifetime_ms / 1000.0) end, a.enqueued_at
    from accepted a;
  end if;

  return query
    select r.ord, verdicts[r.ord], replies[r.ord], retry[r.ord], remain[r.ord] from unnest(rows) r order by r.ord;
end $$;

grant execute on function accept(json, integer) to despatch_api;
