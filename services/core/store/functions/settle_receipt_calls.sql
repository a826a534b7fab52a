-- Puts what calls of vendors say in the place of the calls, in one commit: a receipt is in one of the two, whatever dies.
-- `reports`: what was read; `done`: calls that are settled; `again`: calls to look into after so many milliseconds;
-- `genuine`: accounts of those that were the vendor's; `refused`: {account_id, reason} of those that were not.
create or replace function settle_receipt_calls(reports json, done bigint[], again json, genuine uuid[], refused json)
returns void
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  mine bigint[];
begin
  -- Another worker may have settled one whose lease ran out: then its reports are there already.
  with gone as (delete from receipt_calls c where c.id = any (done) returning c.id)
  select array_agg(g.id) into mine from gone g;
  insert into receipts (tenant_id, account_id, message_seq, purge_on, message_id, provider_message_id, receipt,
    temporary, failure, segment, engagement, provider_status, verified, traceparent, happened_at, report_key, received_at, apply_at)
  select r.tenant_id, r.account_id, r.message_seq, r.purge_on, r.message_id, r.provider_message_id, r.receipt,
    coalesce(r.temporary, false), r.failure, r.segment, r.engagement, r.provider_status,
    r.verified, r.traceparent, to_timestamp(r.happened_ms / 1000.0), r.report_key, to_timestamp(r.received_ms / 1000.0), at_now
  from json_to_recordset(reports) as r (
    call_id bigint, tenant_id uuid, account_id uuid, message_seq bigint, purge_on date, message_id uuid,
    provider_message_id text, receipt text, temporary boolean, failure jsonb, segment text, engagement text,
    provider_status text, verified boolean, traceparent text, happened_ms bigint, report_key text, received_ms bigint)
  where r.call_id = any (mine);
  update receipt_calls c set due_at = at_now + make_interval(secs => a.ms / 1000.0)
  from json_to_recordset(again) as a (id bigint, ms bigint) where c.id = a.id;
  -- Once a minute each: a flood must not keep the account's row busy. The first one changes what workers expect.
  update provider_accounts p set reported_at = at_now, version = p.version + case when p.reported_at is null then 1 else 0 end
  where p.id = any (genuine) and coalesce(p.reported_at, '-infinity') < at_now - interval '1 minute';
  update provider_accounts p set receipt_refused_at = at_now, receipt_refused_reason = f.reason
  from (select distinct on (x.account_id) x.account_id, x.reason
    from json_to_recordset(refused) as x (account_id uuid, reason text) order by x.account_id) f
  where p.id = f.account_id and coalesce(p.receipt_refused_at, '-infinity') < at_now - interval '1 minute';
end $$;

grant execute on function settle_receipt_calls(json, bigint[], json, uuid[], json) to despatch_worker;
