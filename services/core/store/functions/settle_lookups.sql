-- Stores the answers of providers, in one commit. `reports`: what providers said, applied like receipts; `done`: {seq, asks} of
-- messages that need no further lookup; `again`: {seq, asks, ms, unasked} of messages to look up again after the given
-- milliseconds, null: never; `unasked`: no question was asked, and none is counted; `turns`: {account_id, turn, failures, pause_ms} of accounts whose turn ends. `asks` and `turn` identify the answered
-- question and the account's turn; if the stored value is higher, another worker has taken over and the row is skipped.
-- `learned`: {seq, purge_on, tenant_id, provider_message_id} of messages whose calls got no answer: from now on receipts find
-- them by that id.
create or replace function settle_lookups(reports json, learned json, done json, again json, turns json) returns void
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
begin
  -- In the order in which other transactions lock the same rows, to avoid deadlocks.
  perform from lookups l where l.seq in (
    select d.seq from json_to_recordset(done) as d (seq bigint)
    union all select a.seq from json_to_recordset(again) as a (seq bigint))
  order by l.seq for update;
  perform from lookup_turns t
  where t.account_id in (select a.account_id from json_to_recordset(turns) as a (account_id uuid))
  order by t.account_id for update;
  -- Another transaction may hold the results; the messages are locked, against a concurrent purge.
  perform from messages m where (m.seq, m.purge_on) in (
    select r.message_seq, r.purge_on from json_to_recordset(reports) as r (message_seq bigint, purge_on date))
  order by m.seq for key share;
  insert into receipts (tenant_id, account_id, message_seq, purge_on, message_id, provider_message_id, receipt,
    temporary, failure, segment, engagement, provider_status, verified, asked, happened_at, report_key, received_at, apply_at)
  select r.tenant_id, r.account_id, r.message_seq, r.purge_on, r.message_id, r.provider_message_id, r.receipt,
    coalesce(r.temporary, false), r.failure, r.segment, r.engagement, r.provider_status,
    r.verified, true, to_timestamp(r.happened_ms / 1000.0), r.report_key, to_timestamp(r.received_ms / 1000.0), at_now
  from json_to_recordset(reports) as r (
    tenant_id uuid, account_id uuid, message_seq bigint, purge_on date, message_id uuid, provider_message_id text,
    receipt text, temporary boolean, failure jsonb, segment text, engagement text, provider_status text,
    verified boolean, happened_ms bigint, report_key text, received_ms bigint)
  -- Leaves out messages that were purged with their tenant.
  where exists (select from messages m
    where m.seq = r.message_seq and m.purge_on = r.purge_on and m.tenant_id = r.tenant_id);
  delete from lookups l using json_to_recordset(done) as d (seq bigint, asks smallint)
  where l.seq = d.seq and l.asks = d.asks;
  update lookups l set ask_at = coalesce(at_now + make_interval(secs => a.ms / 1000.0), 'infinity'),
    asks = case when a.unasked then greatest(l.asks - 1, 0) else l.asks end
  from json_to_recordset(again) as a (seq bigint, asks smallint, ms bigint, unasked boolean) where l.seq = a.seq and l.asks = a.asks;
  update message_results s set provider_message_id = f.provider_message_id, found_by_id = true
  from (
    select x.seq, x.purge_on, n.provider_message_id
    from json_to_recordset(learned) as n (seq bigint, purge_on date, tenant_id uuid, provider_message_id text)
    join message_results x on x.seq = n.seq and x.purge_on = n.purge_on and x.tenant_id = n.tenant_id
    -- The order in which other transactions lock the same rows, to avoid deadlocks.
    where x.provider_message_id is null order by x.seq for update of x
  ) f
  where s.seq = f.seq and s.purge_on = f.purge_on;
  update lookup_turns t set failures = a.failures,
    open_at = at_now + make_interval(secs => a.pause_ms / 1000.0),
    next_at = greatest(at_now + make_interval(secs => a.pause_ms / 1000.0),
      coalesce((select min(l.ask_at) from lookups l where l.account_id = a.account_id), 'infinity'))
  from json_to_recordset(turns) as a (account_id uuid, turn integer, failures smallint, pause_ms bigint)
  where t.account_id = a.account_id and t.turn = a.turn;
end $$;

grant execute on function settle_lookups(json, json, json, json, json) to despatch_worker;
