-- Returns sent messages whose provider has reported nothing for as long as their routes wait, each with the facts that decide
-- whether it goes on to another account; a share of each tenant's. The rows stay locked, with their results and whatever else
-- waits for their receipts, until the transaction ends: the caller decides and passes the result to `fail_over_silent`. It waits
-- for no lock: `is_busy` marks messages that another transaction has locked. `is_behind`: receipts of the account that arrived within
-- the time of the route in force, and after the call began, are not applied yet; `due_at` is put off while there are any. Only the
-- account's first hundred receipts are looked at, because it may have hundreds of thousands: with as many older ones, later ones may
-- wait too. Calls whose signature was refused say nothing.
create or replace function take_silent(most integer) returns table (
  seq bigint, purge_on date, tenant_id uuid, id uuid, channel text, address text, test boolean, pinned boolean,
  delivery_guarantee delivery_guarantee, discard boolean, has_content boolean, tenant_status text, is_held boolean,
  status text, final boolean, account_id uuid, provider text, is_by_call boolean, is_told boolean, is_awaited boolean, is_expired boolean, is_busy boolean,
  is_behind boolean, silent_ms bigint, tried uuid[], ambiguous integer)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  at_now timestamptz := clock_timestamp();
  -- A random start, so that every tenant gets a turn when there are more tenants than a batch has room for.
  first_tenant uuid := gen_random_uuid();
  tenants uuid[];
  quota integer;
  taken bigint[];
  awaited bigint[];
  asked bigint[];
  sent bigint[];
begin
  -- Hops from tenant to tenant over the index: a tenant with many messages costs no more than one with few.
  with recursive above as (
    (select w.tenant_id from failover_waits w where w.tenant_id >= first_tenant order by w.tenant_id limit 1)
    union all
    select (select w.tenant_id from failover_waits w where w.tenant_id > a.tenant_id order by w.tenant_id limit 1)
    from above a where a.tenant_id is not null
  ), below as (
    (select w.tenant_id from failover_waits w where w.tenant_id < first_tenant order by w.tenant_id limit 1)
    union all
    select (select w.tenant_id from failover_waits w where w.tenant_id > b.tenant_id and w.tenant_id < first_tenant
      order by w.tenant_id limit 1)
    from below b where b.tenant_id is not null
  )
  select array_agg(x.tenant_id) into tenants from (
    select t.tenant_id from (select a.tenant_id from above a union all select b.tenant_id from below b) t
    where t.tenant_id is not null
      and (select true from failover_waits w where w.tenant_id = t.tenant_id and w.due_at <= at_now limit 1)
    limit most
  ) x;
  if tenants is null then
    return;
  end if;
  quota := ceil(most::float8 / cardinality(tenants));
  select array_agg(d.seq order by d.seq) into taken from unnest(tenants) as u (id), lateral (
    select w.seq from failover_waits w where w.tenant_id = u.id and w.due_at <= at_now
    order by w.due_at limit quota for update skip locked
  ) d;
  -- In the order in which other transactions lock the same rows, to avoid deadlocks.
  awaited := array(select a.seq from awaited_receipts a where a.seq = any (taken) order by a.seq for update skip locked);
  asked := array(select l.seq from lookups l where l.seq = any (taken) order by l.seq for update skip locked);
  sent := array(
    select s.seq from message_results s
    where (s.seq, s.purge_on) in (select w.seq, w.purge_on from failover_waits w where w.seq = any (taken))
    order by s.seq for update skip locked);
  return query
    select w.seq, w.purge_on, w.tenant_id, m.id, m.channel, coalesce(m.address, m.recipient), m.test,
      m.pinned_account_id is not null, m.delivery_guarantee, m.content_retention = 'discard', m.content is not null, t.status,
      exists (select from brakes b where b.tenant_id = w.tenant_id and b.channel = m.channel and b.level = 'held'),
      s.status, s.final, s.account_id, s.provider, s.started_at is not null, s.segment_states is not null or s.engagement is not null,
      x.is_awaited,
      -- From the day before its purge on, no message becomes live again: its partition is dropped while none is.
      s.expires_at <= at_now or w.purge_on <= (at_now at time zone 'UTC')::date + 1,
      s.seq <> all (sent) or x.is_awaited and w.seq <> all (awaited) and w.seq <> all (asked),
      coalesce((select bool_or(c.received_at between s.started_at and o.over_at)
          or count(*) = 100 and max(c.received_at) <= o.over_at from (
          select y.received_at from receipt_calls y where y.account_id = s.account_id and not y.refused order by y.due_at limit 100) c), false)
        or coalesce((select bool_or(r.received_at between s.started_at and o.over_at)
          or count(*) = 100 and max(r.received_at) <= o.over_at from (
          select y.received_at from receipts y where not y.waiting and coalesce(y.account_id, y.tenant_id) = s.account_id
          order by y.apply_at limit 100) r), false)
        or exists (select from receipts r where r.waiting and r.message_seq = w.seq and r.account_id = s.account_id)
        or exists (select from receipts r where r.waiting and r.account_id = s.account_id
          and r.provider_message_id = s.provider_message_id),
      floor(extract(epoch from at_now - s.sent_at) * 1000)::bigint,
      array(select distinct a.account_id from attempt_log a
        where a.message_seq = w.seq and a.purge_on = w.purge_on and a.outcome <> 'not_started' and a.account_id is not null),
      (select count(*)::integer from attempt_log a
        where a.message_seq = w.seq and a.purge_on = w.purge_on and a.outcome = 'ambiguous')
    from unnest(taken) as u (seq)
    join failover_waits w on w.seq = u.seq
    left join lateral (select * from messages y where y.seq = w.seq and y.purge_on = w.purge_on) m on true
    left join tenants t on t.id = w.tenant_id
    left join lateral (select * from message_results y where y.seq = w.seq and y.purge_on = w.purge_on) s on true
    left join lateral (select s.sent_at + make_interval(secs => y.receipt_timeout_ms / 1000.0) as over_at from routes y
      where y.tenant_id = w.tenant_id and y.channel = m.channel and y.replaced_at is null) o on true
    cross join lateral (select exists (select from awaited_receipts a where a.seq = w.seq)
      or exists (select from lookups l where l.seq = w.seq) as is_awaited) x;
end $$;

grant execute on function take_silent(integer) to despatch_worker;
