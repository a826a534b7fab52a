-- Stores what providers have answered, in one commit. `reports`: what they say, applied as receipts are; `done`: {seq, asks}
-- of messages that need not be asked about any more; `again`: {seq, asks, ms} of those to ask about after so many
-- milliseconds, null: never; `accounts`: {account_id, failures, pause_ms}. `asks`: of the question that was answered; a
-- later one is another worker's.
create or replace function settle_lookups(reports json, done json, again json, accounts json) returns void
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
begin
  insert into receipts (tenant_id, account_id, message_seq, purge_on, message_id, provider_message_id, receipt,
    temporary, failure, segment, engagement, provider_status, verified, happened_at, report_key, received_at, apply_at)
  select r.tenant_id, r.account_id, r.message_seq, r.purge_on, r.message_id, r.provider_message_id, r.receipt,
    coalesce(r.temporary, false), r.failure, r.segment, r.engagement, r.provider_status,
    r.verified, to_timestamp(r.happened_ms / 1000.0), r.report_key, to_timestamp(r.received_ms / 1000.0), at_now
  from json_to_recordset(reports) as r (
    tenant_id uuid, account_id uuid, message_seq bigint, purge_on date, message_id uuid, provider_message_id text,
    receipt text, temporary boolean, failure jsonb, segment text, engagement text, provider_status text,
    verified boolean, happened_ms bigint, report_key text, received_ms bigint)
  -- None of a message that is gone with its tenant.
  where exists (select from message_results s
    where s.seq = r.message_seq and s.purge_on = r.purge_on and s.tenant_id = r.tenant_id);
  delete from lookups l using json_to_recordset(done) as d (seq bigint, asks smallint)
  where l.seq = d.seq and l.asks = d.asks;
  update lookups l set ask_at = coalesce(at_now + make_interval(secs => a.ms / 1000.0), 'infinity')
  from json_to_recordset(again) as a (seq bigint, asks smallint, ms bigint) where l.seq = a.seq and l.asks = a.asks;
  update lookup_turns t set failures = a.failures,
    open_at = greatest(t.open_at, at_now + make_interval(secs => a.pause_ms / 1000.0)),
    next_at = greatest(t.next_at, at_now + make_interval(secs => a.pause_ms / 1000.0))
  from json_to_recordset(accounts) as a (account_id uuid, failures smallint, pause_ms bigint)
  where t.account_id = a.account_id;
end $$;

grant execute on function settle_lookups(json, json, json, json) to despatch_worker;
