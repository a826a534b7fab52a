-- Replaces receipt calls by the receipts parsed from them, in one commit: a receipt is always in one of the two, whichever
-- process dies. `reports`: the parsed receipts, each with its call's id; `begun`: calls that stay because more of their reports
-- follow; `done`: settled calls; `again`: {id, ms, misconfigured, refused} of calls to read again after these milliseconds;
-- `genuine`: accounts whose calls were authentic; `refused`: {account_id, reason} of calls that were not, or that were given up.
-- Of an account, at most 1,000 calls with 8 MiB of bodies are kept with a refused signature; others are deleted.
create or replace function settle_receipt_calls(reports json, begun bigint[], done bigint[], again json, genuine uuid[], refused json)
returns void
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  mine bigint[];
  surplus bigint[];
  refusers uuid[] := array(select f.account_id from json_to_recordset(refused) as f (account_id uuid));
begin
  -- Another worker may have settled a call whose lease ended: its reports are stored already.
  select array_agg(x.id) into mine from (
    select c.id from receipt_calls c where c.id = any (begun || done) order by c.id for update) x;
  insert into receipts (tenant_id, account_id, message_seq, purge_on, message_id, provider_message_id, receipt,
    temporary, failure, segment, engagement, provider_status, verified, traceparent, happened_at, report_key, received_at, apply_at)
  select c.tenant_id, c.account_id, r.message_seq, r.purge_on, r.message_id, r.provider_message_id, r.receipt,
    coalesce(r.temporary, false), r.failure, r.segment, r.engagement, r.provider_status,
    r.verified, c.traceparent, to_timestamp(r.happened_ms / 1000.0), r.report_key, c.received_at,
    -- Receipts of one commit are applied in the order of arrival.
    at_now - make_interval(secs => (count(*) over () - row_number() over (order by c.id, r.nth)) / 1e6)
  from rows from (json_to_recordset(reports) as (
    call_id bigint, message_seq bigint, purge_on date, message_id uuid, provider_message_id text, receipt text,
    temporary boolean, failure jsonb, segment text, engagement text, provider_status text, verified boolean,
    happened_ms bigint, report_key text)) with ordinality as r (
    call_id, message_seq, purge_on, message_id, provider_message_id, receipt, temporary, failure, segment, engagement,
    provider_status, verified, happened_ms, report_key, nth)
  join receipt_calls c on c.id = r.call_id
  where r.call_id = any (mine);
  if exists (select from json_to_recordset(again) as a (refused boolean) where a.refused) then
    with call as (
      select c.id, c.account_id, row_number() over own as nth, sum(octet_length(c.body)) over own as bytes
      from json_to_recordset(again) as a (id bigint, refused boolean) join receipt_calls c on c.id = any (array[a.id])
      where a.refused
      window own as (partition by c.account_id order by c.id)
    ), kept as (
      -- Calls that are not due now: those of `again` are. Reads no more of them than an account may have.
      select a.account_id, count(w.bytes) as calls, coalesce(sum(w.bytes), 0) as bytes
      from (select distinct x.account_id from call x) a
      left join lateral (
        select octet_length(c.body) as bytes from receipt_calls c where c.account_id = a.account_id and c.due_at > at_now limit 1000
      ) w on true
      group by a.account_id
    )
    select array_agg(x.id) into surplus from call x join kept k on k.account_id = x.account_id
    where k.calls + x.nth > 1000 or k.bytes + x.bytes > 8 * 1024 * 1024;
  end if;
  delete from receipt_calls c where c.id = any (done || surplus);
  update receipt_calls c set due_at = at_now + make_interval(secs => a.ms / 1000.0), leased_until = '-infinity', tries = c.tries + 1,
    misconfigured = coalesce(a.misconfigured, false), refused = c.refused or coalesce(a.refused, false)
  from json_to_recordset(again) as a (id bigint, ms bigint, misconfigured boolean, refused boolean) where c.id = a.id;
  -- All rows are locked before one is changed, in the order in which other transactions lock them, to avoid deadlocks.
  perform from provider_accounts p
  where p.id = any (genuine || refusers)
    and (p.id = any (genuine) and coalesce(p.reported_at, '-infinity') < at_now - interval '1 minute'
      -- As `note_refused_receipts` decides, which skips rows that are locked by then.
      or p.id = any (refusers) and (coalesce(p.receipt_refused_at, '-infinity') < at_now - interval '1 minute'
        or p.receipt_refused_at < at_now - interval '1 second' and exists (
          select from json_to_recordset(refused) as f (account_id uuid, reason text)
          where f.account_id = p.id and f.reason <> p.receipt_refused_reason)))
  order by p.id for no key update;
  -- At most once a minute per account, so that a flood does not keep its row busy. The first receipt raises the version, because
  -- it changes what workers await.
  update provider_accounts p set reported_at = at_now, version = p.version + case when p.reported_at is null then 1 else 0 end
  where p.id = any (genuine) and coalesce(p.reported_at, '-infinity') < at_now - interval '1 minute';
  perform note_refused_receipts(refused);
end $$;

grant execute on function settle_receipt_calls(json, bigint[], bigint[], json, uuid[], json) to despatch_worker;
