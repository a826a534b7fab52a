-- Claims receipt calls to parse, a few of each tenant and of each of its accounts, so that a flood delays no other. They are
-- leased to the caller for `lease_ms`, and are claimed again if not settled by then. `bytes_max`: maximum for their bodies,
-- without the oldest call, which is always included; `body_max`: for each body. `readable`: providers that the caller can parse.
-- Calls for others are left for a day to a worker that can, as during a rollout, and then claimed without a version, as those of
-- a deleted account are. `without`: tenants to skip. `tries`: one more than the readings after which the call stayed. `was_refused`:
-- whether one of these refused its signature.
create or replace function claim_receipt_calls(
  most integer, bytes_max integer, body_max integer, lease_ms integer, readable text[], without uuid[])
returns table (
  id bigint, tenant_id uuid, account_id uuid, account_version integer, method text, receipt_version integer, query text,
  headers jsonb, body bytea, received_ms bigint, tries smallint, was_refused boolean, traceparent text)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  at_now timestamptz := clock_timestamp();
  senders uuid[];
  -- Calls of the account are claimed if they were due by this time.
  due_since timestamptz[];
  -- How many accounts with calls the account's tenant has.
  siblings bigint[];
  -- Calls of one tenant.
  share bigint;
  ids bigint[];
  found integer;
  -- Whether an account may have more calls than were looked at.
  is_cut boolean;
  weight bigint;
begin
  with recursive accounts as (
    -- Hops from account to account over the index: an account with many calls costs no more than one with few.
    (select c.account_id from receipt_calls c order by c.account_id limit 1)
    union all
    select (select c.account_id from receipt_calls c where c.account_id > a.account_id order by c.account_id limit 1)
    from accounts a where a.account_id is not null
  )
  select array_agg(s.account_id), array_agg(s.since), array_agg(s.accounts), count(distinct s.tenant_id)
  into senders, due_since, siblings, share from (
    select d.*, count(*) over (partition by d.tenant_id) as accounts from (
      select a.account_id, coalesce(p.tenant_id, a.account_id) as tenant_id,
        case when p.id is null or p.status = 'deleted' or p.provider = any (readable) then at_now
          else at_now - interval '24 hours' end as since
      from accounts a left join provider_accounts p on p.id = a.account_id
      where a.account_id is not null and coalesce(p.tenant_id <> all (without), true)
    ) d
    where exists (select from receipt_calls c
      where c.account_id = d.account_id and c.due_at <= d.since and c.leased_until <= at_now)
  ) s;
  share := ceil(most::float8 / greatest(share, 1));
  -- Locks no more of a tenant than its share, and more only if the other tenants have less than theirs.
  loop
    with due as (
      select x.id, x.tenant_id, x.nth, x.bytes, x.nth >= a.quota and a.quota < most as is_cut
      from (select u.account_id, u.since, least(most, ceil(share::float8 / u.accounts)) as quota
        from unnest(senders, due_since, siblings) as u (account_id, since, accounts)) a,
      lateral (
        select c.id, c.tenant_id, row_number() over (order by c.due_at) as nth, octet_length(c.body) as bytes
        from (
          select y.id, y.tenant_id, y.due_at, y.body from receipt_calls y
          where y.account_id = a.account_id and y.due_at <= a.since and y.leased_until <= at_now and octet_length(y.body) <= body_max
          order by y.due_at limit a.quota for update skip locked
        ) c
      ) x
    ), turns as (
      -- The accounts of a tenant take turns, and within a turn calls of up to 64 KiB go first, so that large calls do not crowd
      -- those of other accounts out of a batch.
      select d.*, row_number() over (partition by d.tenant_id order by d.nth, d.bytes > 65536, d.id) as turn from due d
    ), placed as (
      -- The oldest call is always included, so that none waits for ever. Then the tenants take turns, in the same way.
      select t.*, row_number() over (order by t.id <> o.id, t.turn, t.bytes > 65536, t.id) as place
      from turns t, (select min(x.id) as id from due x) o
    ), weighed as (
      select p.*, sum(case when p.place = 1 then 0 else p.bytes end) over (order by p.place) as sum_bytes from placed p
    )
    select array_agg(c.id) filter (where c.place <= most and (c.place = 1 or c.sum_bytes <= bytes_max)),
      count(*), bool_or(c.is_cut), sum(c.bytes)
    into ids, found, is_cut, weight from weighed c;
    exit when found >= most or not coalesce(is_cut, false) or weight >= bytes_max;
    share := 4 * share;
  end loop;
  return query
    update receipt_calls c set leased_until = at_now + make_interval(secs => lease_ms / 1000.0)
    from (select u.id, case when p.provider = any (readable) and p.status <> 'deleted' then p.version end as version
      from unnest(ids) as u (id)
      join receipt_calls k on k.id = u.id left join provider_accounts p on p.id = k.account_id) t
    where c.id = t.id
    returning c.id, c.tenant_id, c.account_id, t.version, c.method, c.receipt_version, c.query, c.headers, c.body,
      floor(extract(epoch from c.received_at) * 1000)::bigint, (c.tries + 1)::smallint, c.refused, c.traceparent;
end $$;

grant execute on function claim_receipt_calls(integer, integer, integer, integer, text[], uuid[]) to despatch_worker;
