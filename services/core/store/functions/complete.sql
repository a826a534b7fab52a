-- Records how attempts ended, and moves their messages on. A row counts only while its attempt is the message's current one and
-- still open: a worker that was paused past its lease changes nothing. The worker makes all decisions; it passes delays instead
-- of instants, because only this server's clock decides when a message is due. The attempt that the provider accepted is stored
-- in the message's result, all others in the log. `is_mixed`: some messages end and others wait.
-- Returns the messages whose rows counted.
create or replace function complete(batch json, is_mixed boolean default false) returns setof bigint
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  applied bigint[];
  discarded bigint[];
  discarded_days date[];
  finished uuid[];
  returning_tenants uuid[];
  tenants uuid[];
  seqs bigint[];
  days date[];
  numbers bigint[];
begin
  if is_mixed then
    -- All rows are locked in the order in which other transactions lock them, to avoid deadlocks: the statement below deletes the
    -- ended messages before it changes the others.
    perform from live_messages l where l.seq = any (array(select r.seq from json_to_recordset(batch) as r (seq bigint)))
    order by l.seq for update;
  end if;
  with reported as materialized (
    select * from json_to_recordset(batch) as r (
      seq bigint, attempt integer,
      -- The end of the attempt.
      outcome text, outcome_reason text, failure jsonb, http_status smallint, provider_message_id text, found_by_id boolean, sent_from text,
      -- The message's next state; `failure_shown` is the failure as the message's record shows it.
      -- `rerouted`: another account sends it next, or none does after others were skipped; `called_account` is then the account
      -- of the attempt that ended.
      status text, reason text, failure_shown jsonb, rerouted jsonb, called_account uuid, retries smallint, ambiguous smallint, provider_waits smallint,
      duplicate_risk boolean, final boolean, next_attempt_ms bigint,
      -- Only with `sent`: how long to wait for a receipt, and the receipts that a simulator will send.
      await_ms bigint, receipts jsonb,
      -- Only with `await_ms`: after how long without a receipt the message goes on to another account.
      failover_ms bigint,
      -- Whether the content is to be deleted as soon as no provider needs it.
      discard boolean,
      -- `move_messages` then returns the message to `sent`, in the same transaction.
      returns boolean,
      -- Whether the call speaks for or against its account, and its duration; null if no call was made.
      call_end text, call_ms integer)
    where may_move('sending', r.status)
    -- The order in which other transactions lock the same rows, to avoid deadlocks.
    order by seq
  ), ended as (
    delete from live_messages l using reported r
    where l.seq = any (array[r.seq]) and l.attempt = r.attempt and l.status = 'sending' and not is_live(r.status)
    returning l.seq, l.purge_on, l.tenant_id, l.attempt, case when not l.test then l.account_id end as account_id,
      l.provider, l.worker, l.started_at, l.expires_at, r.outcome, r.outcome_reason, r.failure,
      r.http_status, r.provider_message_id, r.found_by_id, r.sent_from, r.status, r.reason, r.failure_shown,
      r.duplicate_risk, r.final, r.await_ms, r.receipts, r.discard, r.call_end, r.call_ms, r.rerouted, l.test, l.reassigned,
      r.failover_ms, l.sent_attempt
  ), put_off as (
    update live_messages l
    set status = r.status, account_id = coalesce((r.rerouted ->> 'accountId')::uuid, l.account_id),
      -- The record shows an account with that account's provider.
      provider = case when r.rerouted is null then l.provider
        else (select p.provider from provider_accounts p where p.id = (r.rerouted ->> 'accountId')::uuid) end,
      reason = r.reason, failure = r.failure_shown, lease_until = null, retries = r.retries,
      ambiguous = r.ambiguous,
      ambiguous_since = coalesce(l.ambiguous_since, case when r.outcome = 'ambiguous' then l.started_at end),
      provider_waits = r.provider_waits, duplicate_risk = r.duplicate_risk,
      -- No later than the message's expiry, so that the sweep then ends it.
      next_attempt_at = least(at_now + make_interval(secs => r.next_attempt_ms / 1000.0), l.expires_at),
      -- Never in the past: a search starts at the earliest due time that the last look found (`due_floor`), and would miss the
      -- message.
      due_at = greatest(least(at_now + make_interval(secs => r.next_attempt_ms / 1000.0), l.expires_at), at_now),
      updated_at = at_now
    from reported r
    where l.seq = any (array[r.seq]) and l.attempt = r.attempt and l.status = 'sending' and is_live(r.status)
    returning l.seq, l.purge_on, l.tenant_id, l.attempt,
      case when not l.test then coalesce(r.called_account, l.account_id) end as account_id,
      old.provider, l.worker, l.started_at, r.outcome, r.outcome_reason, r.failure, r.http_status, r.status,
      r.reason, r.failure_shown, r.rerouted, r.call_end, r.call_ms, r.returns
  ), counted as materialized (
    select seq, purge_on, tenant_id, attempt, account_id, provider, worker, started_at, outcome, outcome_reason,
      failure, http_status, status, reason, failure_shown, rerouted from ended
    union all
    select seq, purge_on, tenant_id, attempt, account_id, provider, worker, started_at, outcome, outcome_reason,
      failure, http_status, status, reason, failure_shown, rerouted from put_off
  ), logged as (
    insert into attempt_log (message_seq, purge_on, number, tenant_id, account_id, provider, worker, outcome, reason,
      failure, http_status, started_at, ended_at, message_status, message_reason, message_failure, rerouted)
    select c.seq, c.purge_on, c.attempt, c.tenant_id, c.account_id, c.provider, c.worker, c.outcome,
      c.outcome_reason, c.failure, c.http_status, c.started_at, at_now, c.status, c.reason, c.failure_shown, c.rerouted
    from counted c where c.outcome <> 'accepted'
  ), results as (
    insert into message_results (seq, expires_at, event_seq, started_at, sent_at, purge_on, attempt, http_status,
      reassigned, duplicate_risk, found_by_id, tenant_id, account_id, provider, provider_message_id, worker, sent_from,
      updated_at, completed_at, final, status, reason, failure)
    select e.seq, e.expires_at, a.event_seq, a.started_at, case when e.status = 'sent' then at_now end, e.purge_on,
      e.attempt, a.http_status, nullif(e.reassigned, 0), e.duplicate_risk, e.found_by_id, e.tenant_id, e.account_id, e.provider,
      e.provider_message_id, a.worker, e.sent_from, at_now, case when e.await_ms is null then at_now end, e.final,
      e.status, e.reason, e.failure_shown
    from ended e
    left join lateral (
      select nextval('event_seq') as event_seq, e.started_at, e.http_status, e.worker
      where e.outcome = 'accepted') a on true
  ), noted as (
    insert into usage_moves (at, purge_on, was, became, tells, by_call, seqs, account_ids, call_end, call_ms)
    select at_now, e.purge_on, 'in_progress', e.status, case when e.is_final then 'final' end, e.is_accepted,
      array_agg(e.seq), array_agg(e.account_id), e.call_end, case when e.call_end is not null then array_agg(e.call_ms) end
    from (select x.*, x.final and x.status <> 'unknown' as is_final,
        -- The time until acceptance is counted for the first accepted attempt only.
        x.status = 'sent' and x.sent_attempt is null as is_accepted from ended x) e
    group by e.purge_on, e.status, e.is_final, e.is_accepted, e.call_end
    union all
    -- A call without a change of state, after which the message waits for its next call.
    select at_now, p.purge_on, 'in_progress', 'in_progress', null, false, array_agg(p.seq), array_agg(p.account_id), p.call_end,
      array_agg(p.call_ms)
    from put_off p where p.call_end is not null and p.account_id is not null group by p.purge_on, p.call_end
  ), awaited as (
    insert into awaited_receipts (seq, purge_on, tenant_id, test, due_at)
    select e.seq, e.purge_on, e.tenant_id, e.test, at_now + make_interval(secs => e.await_ms / 1000.0) from ended e
    where e.await_ms is not null
  ), limited as (
    insert into failover_waits (seq, purge_on, tenant_id, due_at)
    select e.seq, e.purge_on, e.tenant_id, at_now + make_interval(secs => e.failover_ms / 1000.0) from ended e
    where e.failover_ms is not null
  ), simulated as (
    insert into receipts (tenant_id, message_seq, purge_on, attempt, receipt, temporary, failure, apply_at, waiting)
    select e.tenant_id, e.seq, e.purge_on, e.attempt, f.receipt, coalesce(f.temporary, false), f.failure,
      at_now + make_interval(secs => f."afterMs" / 1000.0), true
    from ended e, jsonb_to_recordset(e.receipts) as f ("afterMs" integer, receipt text, temporary boolean, failure jsonb)
    where e.receipts is not null
  )
  select array_agg(c.seq), (select array_agg(e.seq) from ended e where e.discard),
    (select array_agg(e.purge_on) from ended e where e.discard), (select array_agg(e.tenant_id) from ended e),
    (select array_agg(p.tenant_id) from put_off p where p.returns),
    -- An attempt that was never begun is not an event.
    array_agg(c.tenant_id) filter (where c.status <> 'queued'), array_agg(c.seq) filter (where c.status <> 'queued'),
    array_agg(c.purge_on) filter (where c.status <> 'queued'), array_agg(-c.attempt) filter (where c.status <> 'queued')
  into applied, discarded, discarded_days, finished, returning_tenants, tenants, seqs, days, numbers from counted c;
  -- Tests break this (mutant: feed-change): no change without its event.
  perform note_changes(tenants, seqs, days, numbers);

  if coalesce(cardinality(applied), 0) < json_array_length(batch) then
    -- The results are not locked here; the messages are, against a concurrent purge.
    perform from messages m where (m.seq, m.purge_on) in (
      select r.seq, r.purge_on from json_to_recordset(batch) as r (seq bigint, purge_on date, outcome text)
      where r.outcome = 'accepted' and r.seq <> all (coalesce(applied, '{}')))
    order by m.seq for key share;
    -- An answer that arrived after the lease had ended still proves that the provider accepted the message.
    insert into receipts (tenant_id, message_seq, purge_on, attempt, receipt, provider_message_id, await_ms, apply_at)
    select a.tenant_id, a.message_seq, a.purge_on, a.number, 'sent', r.provider_message_id, r.await_ms, at_now
    from json_to_recordset(batch) as r (
      seq bigint, purge_on date, attempt integer, outcome text, provider_message_id text, await_ms bigint)
    join attempt_log a on a.message_seq = r.seq and a.purge_on = r.purge_on and a.number = r.attempt and a.outcome = 'ambiguous'
    where r.outcome = 'accepted' and r.seq <> all (coalesce(applied, '{}'));
  end if;
  if discarded is not null then
    perform discard_contents(discarded, discarded_days);
  end if;
  if finished is not null then
    if returning_tenants is not null then
      -- Together and in order, to avoid deadlocks: `move_messages` counts these later in this transaction.
      perform lock_counters('finished', array(select distinct t.id from unnest(finished || returning_tenants) as t (id)));
    end if;
    perform count_finished(finished);
  end if;
  return query select unnest(applied);
end $$;

grant execute on function complete(json, boolean) to despatch_worker;
