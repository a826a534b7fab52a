-- Stores the decisions about messages that `take_silent` has locked in the same transaction. `moves`: {seq, purge_on, to,
-- address_key, details} of messages that go on to the account `to`: their accepted attempt moves to the log, and the message
-- waits for a call. `later`: {seq, ms} of messages to look at again; `done`: messages that stay. Returns the moved messages.
create or replace function fail_over_silent(moves json, later json, done bigint[]) returns setof bigint
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  moved bigint[];
  days date[];
  tenants uuid[];
  numbers bigint[];
begin
  with move as materialized (
    select * from json_to_recordset(moves) as m (seq bigint, purge_on date, "to" uuid, address_key text, details jsonb)
  ), gone as (
    delete from message_results s using move m
    -- Tests break this (mutant: silent-move): a message goes on only where the table of moves allows it.
    where s.seq = m.seq and s.purge_on = m.purge_on and may_move(s.status, 'queued')
    returning s.*, m."to", m.address_key, m.details
  ), stopped as (
    delete from awaited_receipts a using gone g where a.seq = g.seq returning a.seq, a.due_at
  ), unasked as (
    delete from lookups l using gone g where l.seq = g.seq
  ), logged as (
    insert into attempt_log (message_seq, purge_on, event_seq, number, tenant_id, account_id, provider, worker, outcome,
      http_status, started_at, ended_at, message_status, provider_message_id, found_by_id, sent_from, await_until)
    select g.seq, g.purge_on, g.event_seq, g.attempt, g.tenant_id, g.account_id, g.provider, g.worker, 'accepted',
      g.http_status, g.started_at, g.sent_at, 'sent', g.provider_message_id, g.found_by_id, g.sent_from,
      -- A pending lookup is due at once if the message returns to this attempt in the end.
      coalesce((select x.due_at from stopped x where x.seq = g.seq), at_now)
    from gone g
  ), queued as (
    insert into live_messages (seq, purge_on, tenant_id, account_id, provider, due_at, status, reason, priority, channel, test,
      pinned, marketing, address_key, segments, content_bytes, attempt, reassigned, duplicate_risk, sent_attempt,
      sent_account_id, expires_at, updated_at)
    select g.seq, g.purge_on, g.tenant_id, g."to", (select p.provider from provider_accounts p where p.id = g."to"), at_now,
      'queued', 'failed_over', m.priority, m.channel, m.test, false, m.category = 'marketing', decode(g.address_key, 'hex'),
      m.segments, case when octet_length(m.content::text) >= 2048 then octet_length(m.content::text) end, g.attempt,
      coalesce(g.reassigned, 0) + 1, true, g.attempt, g.account_id, g.expires_at, at_now
    from gone g join messages m on m.seq = g.seq and m.purge_on = g.purge_on
  ), noted as (
    insert into usage_moves (at, purge_on, was, became, seqs, account_ids)
    select at_now, g.purge_on, g.status, 'in_progress', array_agg(g.seq), array_agg(g.account_id)
    from gone g group by g.purge_on, g.status
  ), told as (
    insert into event_log (message_seq, purge_on, tenant_id, type, source, details, at)
    select g.seq, g.purge_on, g.tenant_id, 'message.failed_over', 'worker', g.details, at_now from gone g
    returning tenant_id, message_seq, purge_on, event_seq
  )
  select array_agg(t.tenant_id), array_agg(t.message_seq), array_agg(t.purge_on), array_agg(t.event_seq)
  into tenants, moved, days, numbers from told t;
  delete from failover_waits w where w.seq = any (moved || done);
  update failover_waits w set due_at = at_now + make_interval(secs => l.ms / 1000.0)
  from json_to_recordset(later) as l (seq bigint, ms bigint) where w.seq = l.seq;
  if moved is not null then
    perform note_changes(tenants, moved, days, numbers);
    perform count_finished('{}', null, tenants);
  end if;
  return query select unnest(moved);
end $$;

grant execute on function fail_over_silent(json, json, bigint[]) to despatch_worker;
