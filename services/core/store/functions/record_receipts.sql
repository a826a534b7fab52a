-- Stores what was decided about receipts that `lock_receipts` locked in the same transaction. `messages`: the messages that
-- changed; `events`: one for each receipt, applied or not, stored once however often the receipt is repeated. A message that has a
-- thousand events gets only those that moved it, because a reader of one event counts all events of its message. `put_off`:
-- receipts to look at again after the given milliseconds; `done`: settled receipts; `refused`: {account_id, reason} of receipts
-- that may not wait any longer. A message with `was_waiting` waited for another call, and is `sent` through `account_id`.
-- `await_ms`: how long to wait for the next receipt of a message that is `sent` again. `days`: the purge days of all these.
create or replace function record_receipts(messages json, events json, days date[], put_off json, done uuid[], refused json)
returns void
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  tenants uuid[];
  seqs bigint[];
  told_days date[];
  numbers bigint[];
  -- The changed messages, and bounds of all days: partitions outside are pruned before a statement starts.
  of_changed bigint[];
  first_day date := (select min(d.day) from unnest(days) as d (day));
  last_day date := (select max(d.day) from unnest(days) as d (day));
  known bigint[];
begin
  select array_agg(r.seq), array_agg(r.seq) filter (where r.was_waiting) into of_changed, known
  from json_to_recordset(messages) as r (seq bigint, was_waiting boolean);
  if cardinality(known) > 0 then
    perform move_messages(known, 'sent', null);
  end if;
  with told as (
    insert into event_log (message_seq, purge_on, tenant_id, type, source, applied, details, report_key, at)
    select e.seq, e.purge_on, e.tenant_id, e.type, 'receipt', e.applied, e.details, e.report_key, at_now
    from json_to_recordset(events) as e (
      seq bigint, purge_on date, tenant_id uuid, type text, applied boolean, details jsonb, report_key text)
    where e.type not in ('message.receipt', 'message.engagement') or not exists (
      select from event_log x
      where x.message_seq = e.seq and x.purge_on = e.purge_on and x.purge_on between first_day and last_day offset 999)
    on conflict (message_seq, purge_on, report_key) where report_key is not null do nothing
    returning tenant_id, message_seq, purge_on, event_seq, type, applied
  )
  -- `message.receipt` records a receipt that changed no state, so it is not an event of the feed.
  select array_agg(t.tenant_id order by t.event_seq), array_agg(t.message_seq order by t.event_seq),
    array_agg(t.purge_on order by t.event_seq), array_agg(t.event_seq order by t.event_seq)
  into tenants, seqs, told_days, numbers from told t where t.applied and t.type <> 'message.receipt';
  perform note_changes(tenants, seqs, told_days, numbers);
  with reported as materialized (
    select * from json_to_recordset(messages) as r (
      seq bigint, purge_on date, status text, final boolean, failure jsonb, partial boolean, late_bounce boolean,
      segment_states jsonb, engagement jsonb, was_waiting boolean, account_id uuid, provider text, provider_message_id text,
      await_ms bigint)
  ), changed as (
    update message_results s set
      status = r.status,
      reason = case when r.status = s.status and not r.was_waiting then s.reason end,
      -- An account whose acceptance is stored stays, though an earlier one reports late that it has sent the message too, and
      -- the ids of the earlier one are not stored beside it.
      account_id = case when lacks_acceptance(s.started_at, s.sent_attempt) then coalesce(r.account_id, s.account_id)
        else s.account_id end,
      provider = case when lacks_acceptance(s.started_at, s.sent_attempt) then coalesce(r.provider, s.provider)
        else s.provider end,
      provider_message_id = coalesce(s.provider_message_id, case
        when lacks_acceptance(s.started_at, s.sent_attempt) or r.account_id = s.account_id then r.provider_message_id end),
      -- Nothing else shows whether later receipts of this provider carry the message's own id.
      found_by_id = s.found_by_id or (s.provider_message_id is null and r.provider_message_id is not null
        and (lacks_acceptance(s.started_at, s.sent_attempt) or r.account_id = s.account_id)),
      failure = r.failure, final = r.final, partial = r.partial, late_bounce = r.late_bounce,
      segment_states = r.segment_states, engagement = r.engagement,
      sent_at = case when r.status = s.status and not r.was_waiting then s.sent_at else coalesce(s.sent_at, at_now) end,
      delivered_at = case when r.status = 'delivered' then coalesce(s.delivered_at, at_now) end,
      completed_at = case when r.await_ms is not null then null when r.status = s.status then s.completed_at else at_now end,
      updated_at = at_now
    from reported r
    where s.seq = any (of_changed) and s.purge_on between first_day and last_day
      -- Tests break this (mutant: receipt-moves): a move that the table of moves does not have is not made.
      and s.seq = r.seq and s.purge_on = r.purge_on and (s.status = r.status or may_move(s.status, r.status))
    returning s.seq, s.purge_on, s.tenant_id, s.status, s.account_id, r.await_ms, old.status as was,
      old.account_id as was_account_id, old.sent_at as was_sent_at,
      -- Once per message: `unknown` never counted as final.
      case when s.final and not (old.final and old.status <> 'unknown') then 'final' end as tells
  ), noted as (
    insert into usage_moves (at, purge_on, was, became, tells, seqs, account_ids, receipt_ms)
    select at_now, c.purge_on, m.was, m.became, m.tells, array_agg(c.seq), array_agg(m.account_id), array_agg(m.receipt_ms)
    from changed c, lateral (
      select c.was_account_id is distinct from c.account_id as has_other_account,
        case when c.was in ('sent', 'unknown') and c.status in ('delivered', 'undelivered')
          then floor(extract(epoch from at_now - c.was_sent_at) * 1000)::bigint end as receipt_ms
    ) x, lateral (
      -- A row of `usage_moves` names one account per message, so a message whose account changes is counted as two moves.
      select c.was, c.status as became, c.tells, c.account_id, x.receipt_ms where c.was <> c.status and not x.has_other_account
      union all
      select null, null, c.tells, c.account_id, null where c.was = c.status and not x.has_other_account and c.tells is not null
      union all
      select c.was, 'in_progress', null, c.was_account_id, null where x.has_other_account
      union all
      select 'in_progress', c.status, c.tells, c.account_id, x.receipt_ms where x.has_other_account
    ) m
    group by c.purge_on, m.was, m.became, m.tells
  ), awaited as (
    insert into awaited_receipts (seq, purge_on, tenant_id, test, due_at)
    select c.seq, c.purge_on, c.tenant_id,
      coalesce((select m.test from messages m
        where m.seq = c.seq and m.purge_on = c.purge_on and m.purge_on between first_day and last_day), false),
      at_now + make_interval(secs => c.await_ms / 1000.0) from changed c
    -- Not if a wait exists: a transaction that is ending it (`expire_receipts`) waits for this transaction's lock on the message.
    where c.await_ms is not null and (select x.seq from awaited_receipts x where x.seq = c.seq limit 1) is null
  ), awaited_on as (
    -- The wait of a message that was `unknown` ends after a minute, when a provider that can be asked would be asked. One that is
    -- ending right now is renewed by the transaction that ends it (`expire_receipts`).
    update awaited_receipts a set due_at = at_now + make_interval(secs => w.await_ms / 1000.0)
    from (select y.seq, c.await_ms from changed c, lateral (
        select x.seq from awaited_receipts x where x.seq = c.seq limit 1 for update skip locked) y
      where c.await_ms is not null) w
    where a.seq = any (array[w.seq])
  ), ended as (
    -- A locked wait is skipped: the transaction that holds its lock is ending it, and waits for this transaction's lock on the
    -- message (`expire_receipts`).
    select x.seq from changed c, lateral (
      select y.seq from awaited_receipts y where y.seq = c.seq limit 1 for update skip locked) x
    where c.status in ('delivered', 'undelivered')
  )
  delete from awaited_receipts a where a.seq = any (array(select e.seq from ended e));
  update receipts r set apply_at = at_now + make_interval(secs => w.ms / 1000.0), waiting = true
  from json_to_recordset(put_off) as w (id uuid, ms bigint) where r.id = any (array[w.id]);
  delete from receipts r where r.id = any (done);
  perform note_refused_receipts(refused);
end $$;

grant execute on function record_receipts(json, json, date[], json, uuid[], json) to despatch_worker;
