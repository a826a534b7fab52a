-- Stores what was decided about receipts that `lock_receipts` has locked in the same transaction. `messages`: those that
-- changed; `events`: one for each receipt, applied or not, once for all of its repetitions; `waiting`: receipts to look at
-- again after so many milliseconds; `done`: those that are settled.
create or replace function record_receipts(messages json, events json, waiting json, done uuid[]) returns void
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
begin
  insert into event_log (message_seq, purge_on, tenant_id, type, source, applied, details, report_key, at)
  select e.seq, e.purge_on, e.tenant_id, e.type, 'receipt', e.applied, e.details, e.report_key, at_now
  from json_to_recordset(events) as e (
    seq bigint, purge_on date, tenant_id uuid, type text, applied boolean, details jsonb, report_key text)
  on conflict do nothing;
  with reported as materialized (
    select * from json_to_recordset(messages) as r (
      seq bigint, purge_on date, status text, final boolean, failure jsonb, partial boolean, late_bounce boolean,
      segment_states jsonb, engagement jsonb)
  ), changed as (
    update message_results s set
      status = r.status,
      reason = case when r.status = s.status then s.reason end,
      failure = r.failure, final = r.final, partial = r.partial, late_bounce = r.late_bounce,
      segment_states = r.segment_states, engagement = r.engagement,
      sent_at = case when r.status = s.status then s.sent_at else coalesce(s.sent_at, at_now) end,
      delivered_at = case when r.status = 'delivered' then coalesce(s.delivered_at, at_now) end,
      completed_at = case when r.status = s.status or r.status = 'sent' then s.completed_at else at_now end,
      updated_at = at_now
    from reported r
    -- Tests break this (mutant: receipt-moves): a move that the table does not have is not made.
    where s.seq = r.seq and s.purge_on = r.purge_on and (s.status = r.status or may_move(s.status, r.status))
    returning s.seq, s.status
  )
  delete from awaited_receipts a using changed c where a.seq = c.seq and c.status in ('delivered', 'undelivered');
  update receipts r set apply_at = at_now + make_interval(secs => w.ms / 1000.0)
  from json_to_recordset(waiting) as w (id uuid, ms bigint) where r.id = w.id;
  delete from receipts r where r.id = any (done);
end $$;

grant execute on function record_receipts(json, json, json, uuid[]) to despatch_worker;
