-- Claims due rows, endpoint by endpoint in the order of their ids, starting after `after_id`. Considers endpoints that may be
-- called now, are not in `busy` and do not belong to a tenant in it. Looks at no more than `hops` endpoints and claims about
-- `claims_most` rows, and about `tenant_most` of a tenant; at most 20 rows and about 100 events of an endpoint, fewer if its rate limit says so. From a failing
-- endpoint it claims a single event, and no other one before that lease ends. From an ordered endpoint it claims the rows with the
-- earliest events, so that these go out in their order also after a lease was lost, and nothing while another claim of that
-- endpoint is under way. Due rows of deleted endpoints are deleted, at most 1,000 per call.
--
-- A full look (`since` is `-infinity`) hops from each endpoint's earliest row to that of the next endpoint. Any other look finds
-- the rows that became due after `since` through the index by time. Neither depends on index skip scans, which Postgres
-- has from 18 on: rows of a paused endpoint, and failed ones that are due later, are never scanned.
--
-- Rows that were due before `since` are searched for only at the endpoints in `known`, {id, due_from}: none of an endpoint's rows
-- was due before its `due_from`. `seen` and `earliest`: the endpoints looked at, and the earliest time at which a row of each is
-- still due. The caller passes these in its next call, so that no search scans past dead index entries (ADR 25). `next_id` is
-- null if no endpoint follows.
create or replace function claim_deliveries(after_id uuid, hops integer, claims_most integer, tenant_most integer, busy uuid[], lease_ms integer,
  since timestamptz, known json)
returns table (claims json, seen uuid[], earliest timestamptz[], next_id uuid, looked_at timestamptz)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  lease interval := make_interval(secs => lease_ms / 1000.0);
  known_ids uuid[];
  known_from timestamptz[];
  candidates uuid[];
  reached uuid := coalesce(after_id, '00000000-0000-0000-0000-000000000000');
  candidate uuid;
  due_from timestamptz;
  next_due timestamptz;
  endpoint webhook_endpoints;
  most integer;
  taken bigint[] := '{}';
  -- The tenant of each row in `taken`.
  taken_of uuid[] := '{}';
  -- The endpoints of rows in `taken`, how long each has waited, and whether its own pace may be the reason; of these the failing ones.
  asked uuid[] := '{}';
  waits double precision[] := '{}';
  paced boolean[] := '{}';
  probed uuid[] := '{}';
  waits_from timestamptz;
  picked bigint[];
  hop integer := 0;
  n integer;
  cleared integer := 0;
begin
  seen := '{}';
  earliest := '{}';
  looked_at := at_now;
  select array_agg(k.id order by k.id), array_agg(k.due_from order by k.id) into known_ids, known_from
  from json_to_recordset(known) as k (id uuid, due_from timestamptz) where k.id > reached;
  if since > '-infinity' then
    candidates := array(
      select k.id from unnest(known_ids) as k (id)
      union
      -- With the conditions and the order of the index by time, so that the planner uses no other one.
      select x.endpoint_id from (
        select d.endpoint_id from due_deliveries d
        where d.due_at between since and at_now and d.due_at < 'infinity' and d.endpoint_id > reached order by d.due_at) x
      order by 1 limit hops + 1);
  end if;
  loop
    if candidates is null then
      select d.endpoint_id, d.due_at into candidate, next_due from due_deliveries d where d.endpoint_id > reached
      order by d.endpoint_id, d.due_at limit 1;
    else
      candidate := candidates[hop + 1];
    end if;
    if candidate is null then
      next_id := null;
      exit;
    end if;
    if hop = hops or cardinality(taken) >= claims_most then
      next_id := reached;
      exit;
    end if;
    hop := hop + 1;
    reached := candidate;
    due_from := least(since, coalesce(known_from[array_position(known_ids, candidate)], since));
    picked := null;
    if candidates is null and next_due > at_now then
      seen := seen || candidate;
      earliest := earliest || null::timestamptz;
      continue;
    end if;

    select w.* into endpoint from webhook_endpoints w join tenants t on t.id = w.tenant_id
    where w.id = candidate and t.status in ('active', 'suspended');
    if endpoint.id is null or endpoint.deleted_at is not null then
      -- In bounded numbers, because other transactions wait for this look, and starting at the earliest time, so that no look
      -- scans past dead index entries.
      delete from due_deliveries d where d.id = any (array(
        select x.id from due_deliveries x
        where x.endpoint_id = candidate and x.due_at >= due_from
          and exists (select from webhook_endpoints w where w.id = candidate and w.deleted_at is not null)
        order by x.due_at limit 1000 - cleared for update skip locked));
      get diagnostics n = row_count;
      cleared := cleared + n;
      most := 0;
    else
      most := case when candidate = any (busy) or endpoint.tenant_id = any (busy)
        -- A tenant with many endpoints leaves room for the others.
        or cardinality(array_positions(taken_of, endpoint.tenant_id)) >= tenant_most then 0 else 100 end;
    end if;
    if most > 0 and (endpoint.status = 'failing' or endpoint.ordered or endpoint.rate_limit_per_second is not null) then
      perform from webhook_endpoints w where w.id = candidate for no key update skip locked;
      if not found then
        most := 0;
      end if;
      select w.* into endpoint from webhook_endpoints w where w.id = candidate;
    end if;
    if endpoint.status not in ('active', 'failing') or endpoint.call_at > at_now or endpoint.deleted_at is not null then
      most := 0;
    elsif endpoint.status = 'failing' then
      -- Tests break this (mutant: single-probe): a failing endpoint is called by one worker, for one event.
      most := least(most, 1);
    end if;
    -- A claimed row is due when its lease ends.
    if most > 0 and endpoint.ordered and exists (
      select from due_deliveries d where d.endpoint_id = candidate and d.due_at > at_now and d.due_at < at_now + 2 * lease
        and d.claim is not null) then
      most := 0;
    end if;
    if most > 0 and endpoint.rate_limit_per_second is not null then
      most := take_endpoint_tokens(candidate, endpoint.rate_limit_per_second, most,
        (select coalesce(sum(d.last_seq - d.first_seq + 1), 0)::integer from (
          -- The rows that the claim below reads.
          (select x.first_seq, x.last_seq from due_deliveries x
          where not endpoint.ordered and x.endpoint_id = candidate and x.due_at between due_from and at_now
          order by x.due_at limit 20)
          union all
          (select x.first_seq, x.last_seq from due_deliveries x
          where endpoint.ordered and x.endpoint_id = candidate and x.due_at between due_from and at_now
          order by x.first_seq limit 20)) d));
    end if;

    if most > 0 then
      with as_due as (
        select d.id, d.first_seq, d.last_seq, d.due_at, false as in_order from due_deliveries d
        where not endpoint.ordered and d.endpoint_id = candidate and d.due_at between due_from and at_now
        order by d.due_at limit 20 for update skip locked
      ), earliest_events as materialized (
        select d.id, d.first_seq from due_deliveries d
        where endpoint.ordered and d.endpoint_id = candidate and d.due_at between due_from and at_now
        order by d.first_seq limit 20
      ), unlocked as materialized (
        select d.id, d.first_seq, d.last_seq, d.due_at, true as in_order from due_deliveries d
        where d.id = any (array(select e.id from earliest_events e)) for update skip locked
      ), due as (
        select * from as_due
        union all
        -- A row that another transaction holds is not overtaken: its events may be earlier ones of the same messages.
        select u.* from unlocked u where not exists (
          select from earliest_events e where e.first_seq < u.first_seq and e.id <> all (array(select x.id from unlocked x)))
      ), reach as (
        select d.*, sum(d.last_seq - d.first_seq + 1)
          over (order by case when d.in_order then d.first_seq end, d.due_at, d.id) as upto from due d
      ), chosen as materialized (
        select r.id, r.last_seq, least(r.last_seq, r.last_seq - (r.upto - most)) as keep_to from reach r
        where r.upto - (r.last_seq - r.first_seq + 1) < most
      ), rest as (
        insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, message_seq, attempts, manual, due_at)
        select d.endpoint_id, d.tenant_id, c.keep_to + 1, d.last_seq, d.purge_on, d.message_seq, d.attempts, d.manual, d.due_at
        from chosen c join due_deliveries d on d.id = any (array[c.id]) where c.keep_to < c.last_seq
      ), claimed as (
        update due_deliveries d set claim = nextval('delivery_claim'), due_at = at_now + lease, last_seq = c.keep_to
        from chosen c where d.id = c.id returning d.id
      )
      select array_agg(c.id), (select min(d.due_at) from due d join chosen o on o.id = d.id) into picked, waits_from from claimed c;
    end if;
    if picked is not null then
      taken := taken || picked;
      taken_of := taken_of || array_fill(endpoint.tenant_id, array[cardinality(picked)]);
      asked := asked || candidate;
      -- Not the time for which the endpoint could not be called: it was paused, had failed, or had asked for a wait.
      waits := waits
        || 1000 * extract(epoch from at_now - greatest(waits_from, endpoint.call_at, endpoint.updated_at))::double precision;
      -- An endpoint with a rate limit also waits for that, and an ordered one for the end of its claim before.
      paced := paced || (endpoint.ordered or endpoint.rate_limit_per_second is not null);
      if endpoint.status = 'failing' then
        probed := probed || candidate;
        update webhook_endpoints w set call_at = at_now + lease where w.id = candidate;
      end if;
    end if;
    seen := seen || candidate;
    earliest := earliest || (select d.due_at from due_deliveries d where d.endpoint_id = candidate and d.due_at between due_from and at_now
      order by d.due_at limit 1);
  end loop;
  select coalesce(json_agg(d), '[]') into claims from (
    select x.id as due_id, x.claim, x.endpoint_id, x.purge_on, x.attempts, x.manual, x.endpoint_id = any (probed) as probe,
      x.due_at as leased_until, waits[array_position(asked, x.endpoint_id)] as waited_ms,
      paced[array_position(asked, x.endpoint_id)] as paced
    from due_deliveries x where x.id = any (taken)
    order by x.endpoint_id, x.due_at, x.first_seq
  ) d;
  return next;
end $$;

grant execute on function claim_deliveries(uuid, integer, integer, integer, uuid[], integer, timestamptz, json) to despatch_worker;
