-- Appends events to the feeds of endpoints, and inserts due rows for them in stretches of at most 100 events. `matches`:
-- {endpoint_id, version, expected, server, upto, feed_seqs, message_seqs, numbers, days}: the tenant's feed has been matched up to
-- `expected` and, with this call, by the filters of the endpoint's `version`, up to `upto`, as read from the database server with
-- the start time `server` (`endpoints_to_match`); the lists name the matching events in feed order.
-- Skips an endpoint that has been matched beyond `expected`, that has changed, or whose row is locked; the caller retries it. The
-- first stretch of an endpoint is claimed for the caller if the endpoint may be called now and `claims_most`, and `tenant_most`
-- for each tenant, permit it. Returns a row for each stretch, or a single row without one for an endpoint that no event matched.
create or replace function append_matches(matches json, claims_most integer, tenant_most integer, lease_ms integer)
returns table (endpoint_id uuid, due_id bigint, first_seq bigint, last_seq bigint, purge_on date, claim bigint)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set jit = off as $$
#variable_conflict use_column
declare
  at_now timestamptz := clock_timestamp();
  lease interval := make_interval(secs => lease_ms / 1000.0);
  locked uuid[];
begin
  select array_agg(x.id) into locked from (
    select w.id from webhook_endpoints w
    where w.id in (select m.endpoint_id from json_to_recordset(matches) as m (endpoint_id uuid)) and w.deleted_at is null
    order by w.id for no key update skip locked
  ) x;
  return query
    -- Read after the lock, so that the changes of its previous holder are visible.
    with reach as materialized (
      select m.*, w.tenant_id, r.last_seq as base, r.matched_at as was_at, greatest(at_now, r.matched_at) as at,
        w.status = 'active' and not w.ordered and w.rate_limit_per_second is null and w.call_at <= at_now as ready
      from json_to_recordset(matches) as m (endpoint_id uuid, version integer, expected bigint, server bigint, upto bigint,
        feed_seqs bigint[], message_seqs bigint[], numbers bigint[], days date[], claimable boolean)
      join webhook_endpoints w on w.id = m.endpoint_id and w.id = any (locked) and w.deleted_at is null
        -- Events that an endpoint no longer asks for are not stored, and none is missed that it asks for now.
        and w.version = m.version
      join endpoint_reach r on r.id = any (array[m.endpoint_id])
      -- Tests break this (mutant: matched-once): what another worker has matched is not matched again.
      where r.matched_to = m.expected
        -- Events that were read from an earlier server are not stored either: a failover may have lost them.
        and m.server = (extract(epoch from pg_postmaster_start_time()) * 1000000)::bigint
    ), event as (
      select r.endpoint_id, e.feed_seq, e.message_seq, e.number, e.day, e.nth
      from reach r, unnest(r.feed_seqs, r.message_seqs, r.numbers, r.days) with ordinality
        as e (feed_seq, message_seq, number, day, nth)
    ), ranked as (
      -- `run` is the same for consecutive events of one day, and differs between separate runs of that day.
      select e.*, e.nth - row_number() over (partition by e.endpoint_id, e.day order by e.nth) as run from event e
    ), chunk as materialized (
      select k.endpoint_id, k.day, min(k.nth) as first_nth, max(k.nth) as last_nth, max(k.feed_seq) as feed_seq,
        array_agg(k.message_seq order by k.nth) as message_seqs, array_agg(k.number order by k.nth) as numbers
      from ranked k group by k.endpoint_id, k.day, k.run
    ), stored as (
      insert into endpoint_feed (first_seq, last_seq, feed_seq, matched_at, endpoint_id, tenant_id, purge_on, seqs, numbers)
      select r.base + c.first_nth, r.base + c.last_nth,
        case when c.last_nth = cardinality(r.feed_seqs) then r.upto else c.feed_seq end, r.at, r.endpoint_id, r.tenant_id, c.day,
        c.message_seqs, c.numbers
      from chunk c join reach r on r.endpoint_id = c.endpoint_id
    ), left_behind as (
      delete from endpoint_heads h using reach r
      where h.endpoint_id = any (array[r.endpoint_id]) and h.feed_seq = any (array[r.expected]) and h.last_seq = any (array[r.base])
    ), headed as (
      insert into endpoint_heads (endpoint_id, feed_seq, last_seq, matched_at, tenant_id)
      select r.endpoint_id, r.upto, r.base + cardinality(r.feed_seqs),
        case when cardinality(r.feed_seqs) = 0 then r.was_at else r.at end, r.tenant_id
      from reach r
    ), stretch as (
      select r.endpoint_id, r.tenant_id, c.day, r.ready and coalesce(r.claimable, true) as ready,
        r.base + c.first_nth + g.nth * 100 as first_seq, r.base + least(c.first_nth + g.nth * 100 + 99, c.last_nth) as last_seq
      from chunk c join reach r on r.endpoint_id = c.endpoint_id
      cross join lateral generate_series(0, (c.last_nth - c.first_nth) / 100) as g (nth)
    ), turn as (
      -- One stretch of each endpoint, the tenants in turn.
      select f.endpoint_id, f.first_seq, row_number() over (order by f.nth, f.endpoint_id) as nth from (
        select s.endpoint_id, min(s.first_seq) as first_seq,
          row_number() over (partition by s.tenant_id order by s.endpoint_id) as nth
        from stretch s where s.ready group by s.tenant_id, s.endpoint_id
      ) f where f.nth <= tenant_most
    ), due as (
      insert into due_deliveries (endpoint_id, tenant_id, first_seq, last_seq, purge_on, due_at, claim)
      select s.endpoint_id, s.tenant_id, s.first_seq, s.last_seq, s.day, case when t.nth is null then at_now else at_now + lease end,
        case when t.nth is not null then nextval('delivery_claim') end
      from stretch s
      left join turn t on t.endpoint_id = s.endpoint_id and t.first_seq = s.first_seq and t.nth <= claims_most
      returning *
    )
    select d.endpoint_id, d.id, d.first_seq, d.last_seq, d.purge_on, d.claim from due d
    union all
    select r.endpoint_id, null, null, null, null, null from reach r where cardinality(r.feed_seqs) = 0;
end $$;

grant execute on function append_matches(json, integer, integer, integer) to despatch_worker;
