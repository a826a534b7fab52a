-- Claims receipt calls to parse, a few of each account, so that a flooded account delays no other. They are leased to the caller
-- for `lease_ms`, and are claimed again if not settled by then. `bytes_max`: maximum for their bodies, without the oldest call,
-- which is always included. `readable`: providers that the caller can parse. Calls for others are left for a day to a worker that
-- can, as during a rollout. `without`: tenants to skip.
create or replace function take_receipt_calls(
  most integer, bytes_max integer, lease_ms integer, readable text[], without uuid[])
returns table (
  id bigint, tenant_id uuid, account_id uuid, account_version integer, method text, receipt_version integer, query text,
  headers jsonb, body bytea, received_ms bigint, tries smallint, traceparent text)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  at_now timestamptz := clock_timestamp();
  senders uuid[];
  -- Calls of the account are claimed if they were due by this time.
  due_since timestamptz[];
  quota integer;
  ids bigint[];
  found integer;
  deepest integer;
  weight bigint;
begin
  with recursive accounts as (
    -- Hops from account to account over the index: an account with many calls costs no more than one with few.
    (select c.account_id from receipt_calls c order by c.account_id limit 1)
    union all
    select (select c.account_id from receipt_calls c where c.account_id > a.account_id order by c.account_id limit 1)
    from accounts a where a.account_id is not null
  )
  select array_agg(s.account_id), array_agg(s.since) into senders, due_since from (
    select a.account_id,
      case when p.id is null or p.provider = any (readable) then at_now else at_now - interval '24 hours' end as since
    from accounts a left join provider_accounts p on p.id = a.account_id and p.status <> 'deleted'
    where a.account_id is not null and coalesce(p.tenant_id <> all (without), true)
  ) s
  where exists (select from receipt_calls c
    where c.account_id = s.account_id and c.due_at <= s.since and c.leased_until <= at_now);
  quota := ceil(most::float8 / greatest(cardinality(senders), 1));
  -- Locks no more of an account than its share, and more only if the other accounts have less than theirs.
  loop
    with due as (
      select x.id, x.nth, x.bytes from unnest(senders, due_since) as a (account_id, since), lateral (
        select c.id, row_number() over (order by c.due_at) as nth, octet_length(c.body) as bytes
        from (
          select y.id, y.due_at, y.body from receipt_calls y
          where y.account_id = a.account_id and y.due_at <= a.since and y.leased_until <= at_now
          order by y.due_at limit quota for update skip locked
        ) c
      ) x
    ), placed as (
      -- The oldest call is always included, so that none waits for ever. Then the accounts take turns, and within a turn calls of
      -- up to 64 KiB go first, so that large calls do not crowd those of other accounts out of a batch.
      select d.id, d.nth, d.bytes, row_number() over (order by d.id <> o.id, d.nth, d.bytes > 65536, d.id) as place
      from due d, (select min(x.id) as id from due x) o
    ), weighed as (
      select p.*, sum(case when p.place = 1 then 0 else p.bytes end) over (order by p.place) as sum_bytes from placed p
    )
    select array_agg(c.id) filter (where c.place <= most and (c.place = 1 or c.sum_bytes <= bytes_max)),
      count(*), max(c.nth), sum(c.bytes)
    into ids, found, deepest, weight from weighed c;
    exit when found >= most or coalesce(deepest, 0) < quota or quota >= most or weight >= bytes_max;
    quota := least(most, 4 * quota);
  end loop;
  return query
    update receipt_calls c set leased_until = at_now + make_interval(secs => lease_ms / 1000.0), tries = c.tries + 1
    from (select u.id, p.version from unnest(ids) as u (id)
      join receipt_calls k on k.id = u.id left join provider_accounts p on p.id = k.account_id) t
    where c.id = t.id
    returning c.id, c.tenant_id, c.account_id, t.version, c.method, c.receipt_version, c.query, c.headers, c.body,
      floor(extract(epoch from c.received_at) * 1000)::bigint, c.tries, c.traceparent;
end $$;

grant execute on function take_receipt_calls(integer, integer, integer, text[], uuid[]) to despatch_worker;
