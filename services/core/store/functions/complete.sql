-- Records how attempts ended, and moves their messages on. A row counts only while its attempt is the message's current
-- one and still open: a worker that was paused past its lease changes nothing. What was decided is decided in the worker;
-- delays and not instants come with it, since only this server's clock says when something is due.
-- Returns the messages whose rows counted.
create or replace function complete(batch json) returns setof bigint
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  applied bigint[];
  discarded bigint[];
  discarded_days date[];
begin
  with reported as materialized (
    select * from json_to_recordset(batch) as r (
      seq bigint, attempt integer,
      -- The attempt's end.
      outcome text, outcome_reason text, failure jsonb, http_status smallint, provider_message_id text, found_by_id boolean, sent_from text,
      -- The message's next state; `failure_shown` is the failure as its record shows it.
      status text, reason text, failure_shown jsonb, retries smallint, ambiguous smallint, provider_waits smallint,
      duplicate_risk boolean, final boolean, next_attempt_ms bigint,
      -- Only with `sent`: how long to wait for a receipt, and the receipts that a simulator will send.
      await_ms bigint, receipts jsonb,
      -- The content is to go as soon as no provider needs it.
      discard boolean)
    where may_move('sending', r.status)
    -- The order in which others lock the same rows.
    order by seq
  ), ended as (
    delete from live_messages l using reported r
    where l.seq = r.seq and l.attempt = r.attempt and l.status = 'sending' and not is_live(r.status)
    returning l.seq, l.purge_on, l.tenant_id, l.attempt, case when not l.test then l.account_id end as account_id,
      l.provider, l.attempt_id, l.worker, l.started_at, l.expires_at, r.outcome, r.outcome_reason, r.failure,
      r.http_status, r.provider_message_id, r.found_by_id, r.sent_from, r.status, r.reason, r.failure_shown,
      r.duplicate_risk, r.final, r.await_ms, r.receipts, r.discard
  ), put_off as (
    update live_messages l
    set status = r.status, reason = r.reason, failure = r.failure_shown, lease_until = null, retries = r.retries,
      ambiguous = r.ambiguous, provider_waits = r.provider_waits, duplicate_risk = r.duplicate_risk,
      -- Looked at when it expires, should that come first.
      next_attempt_at = least(at_now + make_interval(secs => r.next_attempt_ms / 1000.0), l.expires_at),
      due_at = least(at_now + make_interval(secs => r.next_attempt_ms / 1000.0), l.expires_at), updated_at = at_now
    from reported r
    where l.seq = r.seq and l.attempt = r.attempt and l.status = 'sending' and is_live(r.status)
    returning l.seq, l.purge_on, l.tenant_id, l.attempt, case when not l.test then l.account_id end as account_id,
      l.provider, l.attempt_id, l.worker, l.started_at, r.outcome, r.outcome_reason, r.failure, r.http_status,
      r.provider_message_id, r.found_by_id, r.status, r.reason, r.failure_shown
  ), counted as materialized (
    select seq, purge_on, tenant_id, attempt, account_id, provider, attempt_id, worker, started_at, outcome, outcome_reason,
      failure, http_status, provider_message_id, found_by_id, status, reason, failure_shown from ended
    union all
    select seq, purge_on, tenant_id, attempt, account_id, provider, attempt_id, worker, started_at, outcome, outcome_reason,
      failure, http_status, provider_message_id, found_by_id, status, reason, failure_shown from put_off
  ), logged as (
    insert into attempt_log (message_seq, purge_on, number, id, tenant_id, account_id, provider, worker, outcome, reason,
      failure, http_status, provider_message_id, found_by_id, started_at, ended_at, message_status, message_reason,
      message_failure)
    select c.seq, c.purge_on, c.attempt, c.attempt_id, c.tenant_id, c.account_id, c.provider, c.worker, c.outcome,
      c.outcome_reason, c.failure, c.http_status, c.provider_message_id, c.found_by_id, c.started_at, at_now, c.status,
      c.reason, c.failure_shown
    from counted c
  ), results as (
    insert into message_results (seq, purge_on, tenant_id, status, reason, attempt, duplicate_risk, account_id, provider,
      provider_message_id, sent_from, failure, final, expires_at, sent_at, completed_at, updated_at)
    select e.seq, e.purge_on, e.tenant_id, e.status, e.reason, e.attempt, e.duplicate_risk, e.account_id, e.provider,
      e.provider_message_id, e.sent_from, e.failure_shown, e.final, e.expires_at,
      case when e.status = 'sent' then at_now end, case when e.await_ms is null then at_now end, at_now
    from ended e
  ), awaited as (
    insert into awaited_receipts (seq, purge_on, tenant_id, due_at)
    select e.seq, e.purge_on, e.tenant_id, at_now + make_interval(secs => e.await_ms / 1000.0) from ended e
    where e.await_ms is not null
  ), simulated as (
    insert into receipts (tenant_id, message_seq, purge_on, attempt, receipt, temporary, failure, apply_at)
    select e.tenant_id, e.seq, e.purge_on, e.attempt, f.receipt, coalesce(f.temporary, false), f.failure,
      at_now + make_interval(secs => f."afterMs" / 1000.0)
    from ended e, jsonb_to_recordset(e.receipts) as f ("afterMs" integer, receipt text, temporary boolean, failure jsonb)
    where e.receipts is not null
  ), finished as (
    insert into tenant_progress as p (tenant_id, finished)
    select e.tenant_id, count(*) from ended e group by e.tenant_id order by e.tenant_id
    on conflict (tenant_id) do update set finished = p.finished + excluded.finished
  )
  select array_agg(c.seq), (select array_agg(e.seq) from ended e where e.discard),
    (select array_agg(e.purge_on) from ended e where e.discard)
  into applied, discarded, discarded_days from counted c;

  if coalesce(cardinality(applied), 0) < json_array_length(batch) then
    -- An answer that came after the lease: proof all the same that the provider accepted.
    insert into receipts (tenant_id, message_seq, purge_on, attempt, receipt, apply_at)
    select a.tenant_id, a.message_seq, a.purge_on, a.number, 'sent', at_now
    from json_to_recordset(batch) as r (seq bigint, purge_on date, attempt integer, outcome text)
    join attempt_log a on a.message_seq = r.seq and a.purge_on = r.purge_on and a.number = r.attempt and a.outcome = 'ambiguous'
    where r.outcome = 'accepted' and r.seq <> all (coalesce(applied, '{}'));
  end if;
  if discarded is not null then
    perform discard_contents(discarded, discarded_days);
  end if;
  return query select unnest(applied);
end $$;

grant execute on function complete(json) to despatch_worker;
