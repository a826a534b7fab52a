-- Moves messages for which no call is under way, where `may_move` permits: holds them, puts them back, or ends them with the
-- failure in `of_failure`. A message that is `sending` is skipped, because the end of its attempt moves it (`complete`). A
-- scheduled message that becomes `queued` gets an event. For a message that becomes `sent` without a call, because a receipt
-- proves it, the caller writes the event. `canceled` without a failure means that the sender asked for it, and `suppressed` that
-- the recipient did: such a message shows no failure, whatever earlier attempts ended with. `unknown` keeps the failure of its
-- last attempt, and receipts still count. `of_reason`: why the message is in its new state, if neither the state nor the failure
-- says so; the reason for which it waited ends with the wait.
-- A message that a provider has accepted (`sent_attempt`) ends in no state but `sent`, in which its receipts count. With a reason
-- it returns to `sent` as it was, through the account that accepted it, and the event is written here; `of_failure` is {why} if
-- the account that was to send it next made no call.
-- Returns the messages that were moved.
create or replace function move_messages(seqs bigint[], to_status text, of_failure jsonb, of_reason text default null)
returns setof bigint
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz;
  movable bigint[];
  days date[];
  tenants uuid[];
  -- Tenants of messages that were scheduled and no longer are.
  unscheduled uuid[];
  event_tenants uuid[];
  event_days date[];
  numbers bigint[];
  event_seqs bigint[];
  is_wish boolean := to_status in ('canceled', 'suppressed') and of_failure is null;
  is_return boolean := to_status = 'sent' and of_reason is not null;
begin
  -- In the order in which other transactions lock the same rows, to avoid deadlocks.
  select array_agg(x.seq), array_agg(x.purge_on), array_agg(x.tenant_id),
    array_agg(x.tenant_id) filter (where x.priority >= 3 and to_status not in ('scheduled', 'held'))
  into movable, days, tenants, unscheduled from (
    select l.seq, l.purge_on, l.tenant_id, l.priority from live_messages l
    where l.seq = any (seqs) and l.status <> 'sending' and may_move(l.status, to_status)
      -- The worker that found a message due took no lock: its sender may have moved it to a later instant since.
      and (to_status <> 'queued' or l.status <> 'scheduled' or coalesce(l.next_attempt_at, '-infinity') <= clock_timestamp())
      -- A call may have got no answer since the message was read: it ends as `unknown`, in which the receipts of that call count.
      and (to_status <> 'failed' or l.ambiguous = 0 or not may_move(l.status, 'unknown'))
      and case when is_return then l.sent_attempt is not null else l.sent_attempt is null or is_live(to_status) or to_status = 'sent' end
    order by l.seq for update) x;
  if movable is null then
    return;
  end if;
  -- After the locks, because acquiring them may take time.
  at_now := clock_timestamp();
  with told as (
    insert into event_log (message_seq, purge_on, tenant_id, type, source, details, at)
    select l.seq, l.purge_on, l.tenant_id,
      'message.' || case when l.status = 'held' and is_live(to_status) then 'released' else to_status end,
      case when is_wish and to_status = 'canceled' then 'api' when l.status = 'scheduled' and to_status = 'queued' then 'worker'
        when is_live(to_status) then 'system' else 'worker' end,
      case when is_return then jsonb_build_object('reason', of_reason) || coalesce(case when of_failure is not null then jsonb_build_object(
          'from', l.account_id, 'why', of_failure -> 'why', 'rerouted', jsonb_build_object('accountId', l.sent_account_id, 'skipped', '[]'::jsonb)) end, '{}')
        when is_live(to_status) then case when of_reason is not null then jsonb_build_object('reason', of_reason) end
        when not is_wish then jsonb_build_object('failure', coalesce(of_failure, l.failure))
          || coalesce(case when of_reason is not null then jsonb_build_object('reason', of_reason) end, '{}')
        when of_reason is not null then jsonb_build_object('reason', of_reason) end,
      at_now
    from live_messages l where l.seq = any (movable) and (to_status <> 'sent' or is_return)
    returning tenant_id, message_seq, purge_on, event_seq, type
  )
  select array_agg(t.tenant_id), array_agg(t.message_seq), array_agg(t.purge_on), array_agg(t.event_seq)
  into event_tenants, event_seqs, event_days, numbers
  -- Holding and releasing a message is not an event of the feed: the tenant's suspension, or the channel's brake, has events for
  -- that.
  from told t where not is_live(to_status) or t.type = 'message.queued';
  perform note_changes(event_tenants, event_seqs, event_days, numbers);
  if is_live(to_status) then
    update live_messages l
    set status = to_status, held_from = case when to_status = 'held' then l.status end,
      held_at = case when to_status = 'held' then at_now end,
      released_at = case when l.status = 'held' and to_status <> 'held' then at_now else l.released_at end,
      -- Time in `held` does not count toward expiry, nor does time before the instant that the sender named.
      expires_at = l.expires_at + coalesce(case when l.held_from = 'scheduled'
        then greatest(at_now - greatest(l.held_at, l.next_attempt_at), interval '0') else at_now - l.held_at end, interval '0'),
      priority = case to_status when 'scheduled' then l.priority % 3 + 3 when 'held' then l.priority else l.priority % 3 end,
      next_attempt_at = case when l.status <> 'scheduled' or to_status = 'held' then l.next_attempt_at end,
      -- Never in the past: a search starts at the earliest due time that the last look found, and would miss the message.
      due_at = case when to_status = 'held' then 'infinity' else greatest(l.next_attempt_at, at_now) end, updated_at = at_now
    where l.seq = any (movable);
    if unscheduled is not null then
      perform count_finished('{}', unscheduled);
    end if;
  else
    with ended as (
      delete from live_messages l where l.seq = any (movable) returning l.*
    ), noted as (
      insert into usage_moves (at, purge_on, was, became, seqs, account_ids)
      select at_now, e.purge_on, 'in_progress', to_status, array_agg(e.seq),
        array_agg(case when is_return then e.sent_account_id when e.attempt > 0 then e.account_id end)
      from ended e where not e.test group by e.purge_on
    ), accepted as materialized (
      select e.seq, a.ended_at, a.account_id, a.provider, a.provider_message_id, a.found_by_id, a.sent_from, a.await_until
      from ended e join attempt_log a on a.message_seq = e.seq and a.purge_on = e.purge_on and a.number = e.sent_attempt
      where to_status = 'sent' and e.sent_attempt is not null
    ), awaited as (
      insert into awaited_receipts (seq, purge_on, tenant_id, test, due_at)
      select e.seq, e.purge_on, e.tenant_id, e.test, greatest(a.await_until, at_now)
      from ended e join accepted a on a.seq = e.seq where is_return
      union all
      -- A provider that can be asked is asked about the call without an answer, after `AMBIGUOUS_LOOKUP_MS`.
      select e.seq, e.purge_on, e.tenant_id, e.test, at_now + interval '1 minute'
      from ended e where to_status = 'unknown' and e.attempt > 0 and not e.test
    )
    insert into message_results (seq, purge_on, tenant_id, status, reason, attempt, reassigned, duplicate_risk, account_id, provider,
      failure, final, expires_at, completed_at, updated_at, sent_at, sent_attempt, provider_message_id, found_by_id, sent_from)
    select e.seq, e.purge_on, e.tenant_id, to_status, of_reason, e.attempt, nullif(e.reassigned, 0), e.duplicate_risk,
      case when is_return then a.account_id when e.attempt > 0 and not e.test then e.account_id end,
      case when is_return then a.provider else e.provider end,
      case when not (is_wish or is_return) then coalesce(of_failure, e.failure) end, to_status not in ('sent', 'unknown'), e.expires_at,
      case when not is_return then at_now end, at_now, a.ended_at,
      case when is_return then e.sent_attempt end, case when is_return then a.provider_message_id end,
      case when is_return then a.found_by_id end, case when is_return then a.sent_from end
    from ended e left join accepted a on a.seq = e.seq;
    perform discard_contents(movable, days);
    perform count_finished(tenants, unscheduled);
  end if;
  return query select unnest(movable);
end $$;

grant execute on function move_messages(bigint[], text, jsonb, text) to despatch_worker;
