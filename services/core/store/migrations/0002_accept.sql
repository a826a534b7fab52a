-- The accept path: one call, one commit, for a whole micro-batch of requests from any number of tenants.
-- Locks are always taken in the same order (idempotency scopes, rate windows, tenant rows, each sorted), so that two
-- api processes cannot deadlock.

-- The first midnight (UTC) between a Sunday and a Monday at which retention is over: rows stay as long as promised and
-- less than a week longer, partitions stay few.
create function purge_day(accepted timestamptz, retention_days integer) returns date language sql immutable parallel safe
as $$
  -- All in `timestamp`: a cast by way of the session's time zone could not be inlined, and would mean another day.
  select date_trunc('week',
    (accepted at time zone 'UTC') + (retention_days + 7) * interval '1 day' - interval '1 microsecond')::date
$$;

-- Idempotency ------------------------------------------------------------------------------------------------------

create function idempotency_generation(at timestamptz) returns date language sql immutable parallel safe
as $$ select date_trunc('week', at at time zone 'UTC')::date $$;

-- Whether a generation is so young that transactions begun in the one before it may still be writing.
create function idempotency_turning(at timestamptz) returns boolean language sql immutable parallel safe
as $$ select at at time zone 'UTC' < idempotency_generation(at) + interval '5 minutes' $$;

-- Claims scopes for this transaction. Returns each scope that somebody else holds, with what they stored; waits for a
-- holder that has not committed yet. In a generation's first minutes the previous one is claimed too, since a
-- transaction begun before the boundary may still be writing there. Who knows its answer beforehand stores it at once.
-- A later generation holds something where a clock ran ahead and came back: what was promised then is promised still.
create function claim_idempotency(scopes bytea[], tenants uuid[], fingerprints bytea[], answer smallint default null,
  responses json[] default null)
returns table (scope bytea, fingerprint bytea, status smallint, response json, nonce bytea)
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  current_generation date := idempotency_generation(clock_timestamp());
  previous_generation date := current_generation - 7;
  won bytea[];
begin
  if idempotency_turning(clock_timestamp()) then
    with mine as (
      insert into idempotency_keys as k (scope, generation, tenant_id, fingerprint, status, response)
      select u.scope, previous_generation, u.tenant, u.fingerprint, answer, u.response
      from unnest(scopes, tenants, fingerprints, responses) as u (scope, tenant, fingerprint, response)
      where not exists (select from idempotency_keys x where x.scope = u.scope and x.generation > current_generation)
      order by u.scope
      on conflict do nothing returning k.scope
    )
    select coalesce(array_agg(m.scope), '{}') into won from mine m;
  else
    select coalesce(array_agg(u.scope), '{}') into won from unnest(scopes) as u (scope)
    where not exists (select from idempotency_keys k where k.scope = u.scope
      and k.generation >= previous_generation and k.generation <> current_generation);
  end if;
  with mine as (
    insert into idempotency_keys as k (scope, generation, tenant_id, fingerprint, status, response)
    select u.scope, current_generation, u.tenant, u.fingerprint, answer, u.response
    from unnest(scopes, tenants, fingerprints, responses) as u (scope, tenant, fingerprint, response)
    where u.scope = any (won) order by u.scope
    on conflict do nothing returning k.scope
  )
  select coalesce(array_agg(m.scope), '{}') into won from mine m;
  return query
    select distinct on (k.scope) k.scope, k.fingerprint, k.status, k.response, k.nonce
    from unnest(scopes) as u (scope)
    join idempotency_keys k on k.scope = u.scope and k.generation >= previous_generation
    where u.scope <> all (won)
    order by k.scope, k.generation;
end $$;

-- Stores what a later call with the same key is answered with. Only successes are stored.
create function store_idempotent_response(scopes bytea[], statuses smallint[], responses json[], nonces bytea[])
returns void language sql security definer set search_path = despatch, pg_temp as $$
  update idempotency_keys k set status = u.status, response = u.response, nonce = u.nonce
  from unnest(scopes, statuses, responses, nonces) as u (scope, status, response, nonce)
  where k.scope = u.scope
    and k.generation in (idempotency_generation(clock_timestamp()), idempotency_generation(clock_timestamp()) - 7)
$$;

create function release_idempotency(scopes bytea[]) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  delete from idempotency_keys k
  where k.scope = any (scopes) and k.status is null
    and k.generation in (idempotency_generation(clock_timestamp()), idempotency_generation(clock_timestamp()) - 7)
$$;

-- Requests per minute ------------------------------------------------------------------------------------------------
-- 61 buckets, not 60: two calls 59.01 s apart can fall in buckets 60 apart, and a rolling minute must hold both.

-- The window as it stands at `now_second`: what has left it is gone from `counts` and `total`. Where the clock has gone
-- back, what was counted keeps its age: under stamps of the future it would fill the window until they have come. Such a
-- window is to be stored even where nothing is counted, or its ages would begin anew with every look.
create function rate_advance(w rate_windows, now_second bigint) returns rate_windows
language plpgsql immutable as $$
declare
  slot integer;
  aged integer[];
begin
  if now_second < w.second then
    aged := array_fill(0, array[61]);
    for age in 0 .. 60 loop
      aged[((now_second - age) % 61)::integer + 1] := w.counts[((w.second - age) % 61)::integer + 1];
    end loop;
    w.counts := aged;
  elsif now_second - w.second >= 61 then
    w.counts := array_fill(0, array[61]);
    w.total := 0;
  else
    for s in w.second + 1 .. now_second loop
      slot := (s % 61)::integer + 1;
      w.total := w.total - w.counts[slot];
      w.counts[slot] := 0;
    end loop;
  end if;
  w.second := now_second;
  return w;
end $$;

-- Seconds until one more call would pass: 1 to 61.
create function rate_retry_after(w rate_windows, allowed integer) returns integer
language plpgsql immutable as $$
declare
  left_over integer := w.total;
begin
  for age in reverse 60 .. 0 loop
    left_over := left_over - w.counts[((w.second - age) % 61)::integer + 1];
    if left_over < allowed then
      return 61 - age;
    end if;
  end loop;
  return 61;
end $$;

create function rate_count(w rate_windows, calls integer) returns rate_windows
language plpgsql immutable as $$
declare
  slot integer := (w.second % 61)::integer + 1;
begin
  w.counts[slot] := w.counts[slot] + calls;
  w.total := w.total + calls;
  return w;
end $$;

-- One call by one subject, for everything that is not a send.
create function take_rate(for_subject uuid, allowed integer)
returns table (passed boolean, remaining integer, retry_after integer)
language plpgsql security definer set search_path = despatch, pg_temp as $$
declare
  w rate_windows;
  stored_second bigint;
begin
  insert into rate_windows (subject) values (for_subject) on conflict do nothing;
  select * into w from rate_windows where subject = for_subject for update;
  stored_second := w.second;
  w := rate_advance(w, extract(epoch from clock_timestamp())::bigint);
  if w.total >= allowed then
    if w.second < stored_second then
      update rate_windows r set second = w.second, counts = w.counts where r.subject = for_subject;
    end if;
    return query select false, 0, rate_retry_after(w, allowed);
    return;
  end if;
  w := rate_count(w, 1);
  update rate_windows r set second = w.second, counts = w.counts, total = w.total where r.subject = for_subject;
  return query select true, allowed - w.total, rate_retry_after(w, allowed);
end $$;

-- Accept -----------------------------------------------------------------------------------------------------------------

create type accept_request as (
  ord integer,
  id uuid,
  tenant_id uuid,
  api_key_id uuid,
  channel text,
  recipient text,
  address text,
  sender text,
  content jsonb,
  external_id text,
  category text,
  priority smallint,
  test boolean,
  pinned_provider_id uuid,
  segments smallint,
  encoding text,
  delivery_guarantee text,
  content_retention text,
  metadata jsonb,
  tags text[],
  traceparent text,
  request_id text,
  enqueued_at timestamptz,
  expires_at timestamptz,
  -- Where the sender named no instant: the clock of an api may be wrong, and a lifetime is short.
  lifetime_ms bigint,
  retention_days integer,
  -- Limits in force, as the api knows them.
  rate_per_minute integer,
  messages_per_day bigint,
  backlog_max bigint,
  -- Hex; null without an idempotency key.
  scope text,
  fingerprint text,
  response json
);

-- Verdicts: accepted, replayed (response), mismatch, suspended, rate_limited, daily_limit_reached, backlog_full.
-- A refused request leaves nothing behind and counts nowhere. `sweep_after_ms` is how long the wake-up over the
-- stream has before the sweep may look; 0 where the stream is known to be away.
create function accept(batch json, sweep_after_ms integer)
returns table (ord integer, verdict text, response json, retry_after integer, remaining integer, purge_on date)
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
    with numbered as materialized (
      -- By this clock: one of an api that is far behind would have the message dropped before it is sent.
      select nextval('message_seq') as seq, purge_day(now(), r.retention_days) as purge_on, r.*
      from unnest(rows) r where verdicts[r.ord] = 'accepted'
    ), stored as (
      insert into messages (seq, id, purge_on, tenant_id, api_key_id, channel, recipient, address, sender, content,
        external_id, category, priority, test, pinned_provider_id, segments, encoding, delivery_guarantee,
        content_retention, metadata, tags, traceparent, request_id, enqueued_at)
      select n.seq, n.id, n.purge_on, n.tenant_id, n.api_key_id, n.channel, n.recipient, n.address, n.sender, n.content,
        n.external_id, n.category, n.priority, n.test, n.pinned_provider_id, n.segments, n.encoding, n.delivery_guarantee,
        n.content_retention, n.metadata, n.tags, n.traceparent, n.request_id, n.enqueued_at
      from numbered n
    ), states as (
      insert into message_states (id, purge_on, tenant_id, seq, status, expires_at, updated_at)
      -- A lifetime counts from the moment that the 202 tells, unless the clock that told it is wrong.
      select n.id, n.purge_on, n.tenant_id, n.seq, 'queued',
        case when n.lifetime_ms is null or abs(extract(epoch from now() - n.enqueued_at)) < 5 then n.expires_at
          else now() + make_interval(secs => n.lifetime_ms / 1000.0) end, n.enqueued_at
      from numbered n
    )
    insert into due (seq, message_id, purge_on, tenant_id, due_at)
    select n.seq, n.id, n.purge_on, n.tenant_id, now() + make_interval(secs => sweep_after_ms / 1000.0) from numbered n;
  end if;

  return query
    select r.ord, verdicts[r.ord], replies[r.ord], retry[r.ord], remain[r.ord], purge_day(now(), r.retention_days)
    from unnest(rows) r order by r.ord;
end $$;

-- Large contents ---------------------------------------------------------------------------------------------------------
-- One of them never waits in a batch with others: it is stored by itself, before its message is accepted.

-- Of the transaction's tenant.
create function store_content(of_message uuid, accepted timestamptz, retention_days integer, of_content text)
returns void language sql security definer set search_path = despatch, pg_temp as $$
  insert into unsettled_contents (message_id, purge_on, tenant_id)
  values (of_message, purge_day(accepted, retention_days), current_tenant());
  insert into message_contents (message_id, purge_on, tenant_id, content)
  values (of_message, purge_day(accepted, retention_days), current_tenant(), of_content);
$$;

-- Deletes the content of a message of that tenant that was refused. That of an accepted one stays.
create function forget_content(of_message uuid) returns void
language sql security definer set search_path = despatch, pg_temp as $$
  with refused as (
    delete from unsettled_contents u where u.message_id = of_message and u.tenant_id = current_tenant()
      and not exists (select from messages m where m.id = u.message_id and m.purge_on = u.purge_on)
    returning u.message_id, u.purge_on
  )
  delete from message_contents c using refused r where c.message_id = r.message_id and c.purge_on = r.purge_on
$$;
