-- Receipts that are due, each with what is known of the message that it is about. Both stay locked until the transaction
-- ends: its caller decides what follows, and hands that to `record_receipts`. `seq` is null where no message is found,
-- `status` where it has no result. `under_way`: the attempt that is reported on is not recorded yet.
create or replace function lock_receipts(most integer) returns table (
  id uuid, tenant_id uuid, provider text, attempt integer, receipt text, temporary boolean, failure jsonb, segment text,
  engagement text, provider_status text, verified boolean, happened_ms bigint, report_key text,
  called_in text, sent_in text, waited_ms bigint, seq bigint, purge_on date,
  under_way boolean, repeated boolean, status text, final boolean, last_attempt integer, failure_shown jsonb,
  segments smallint, segment_states jsonb, partial boolean, late_bounce boolean, engaged jsonb)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  at_now timestamptz := clock_timestamp();
  ids uuid[];
  seqs bigint[];
  days date[];
  numbers integer[];
begin
  -- The message's own id counts for more than the provider's: an account may be shared with another system.
  select array_agg(p.id), array_agg(p.seq), array_agg(p.purge_on), array_agg(p.number) into ids, seqs, days, numbers
  from (
    select r.id, coalesce(m.seq, v.message_seq) as seq, coalesce(m.purge_on, v.purge_on) as purge_on,
      coalesce(r.attempt, v.number, n.number) as number
    from (
      select * from receipts x where x.apply_at <= at_now order by x.apply_at limit most for update skip locked
    ) r
    left join lateral (
      select y.seq, y.purge_on from messages y
      where y.seq = r.message_seq and y.purge_on = r.purge_on and y.tenant_id = r.tenant_id
        and (r.message_id is null or y.id = r.message_id)
    ) m on true
    left join lateral (
      select a.message_seq, a.purge_on, a.number from attempt_log a
      where m.seq is null and a.found_by_id and a.provider_message_id = r.provider_message_id
        and a.account_id = r.account_id and a.tenant_id = r.tenant_id
      order by a.ended_at desc limit 1
    ) v on true
    left join lateral (
      select max(a.number) as number from attempt_log a
      where r.attempt is null and a.message_seq = m.seq and a.purge_on = m.purge_on
        and a.provider_message_id = r.provider_message_id
    ) n on true
  ) p;
  perform from message_results s
  where (s.seq, s.purge_on) in (select u.seq, u.day from unnest(seqs, days) as u (seq, day)) order by s.seq for update;
  return query
    select r.id, r.tenant_id, coalesce(s.provider, p.provider, 'unknown'), u.number, r.receipt, r.temporary, r.failure,
      r.segment, r.engagement, r.provider_status, r.verified,
      floor(extract(epoch from coalesce(r.happened_at, r.received_at)) * 1000)::bigint, r.report_key,
      r.traceparent, m.traceparent, floor(extract(epoch from at_now - r.received_at) * 1000)::bigint, u.seq, u.day,
      exists (select from live_messages l where l.seq = u.seq and l.status = 'sending'
        and l.attempt = coalesce(u.number, l.attempt)),
      r.report_key is not null and exists (select from event_log e
        where e.message_seq = u.seq and e.purge_on = u.day and e.report_key = r.report_key),
      s.status, s.final, s.attempt, s.failure, m.segments, s.segment_states, s.partial, s.late_bounce, s.engagement
    from unnest(ids, seqs, days, numbers) with ordinality as u (id, seq, day, number, nth)
    join receipts r on r.id = u.id
    left join provider_accounts p on p.id = r.account_id
    left join lateral (select x.segments, x.traceparent from messages x where x.seq = u.seq and x.purge_on = u.day) m on true
    left join lateral (select * from message_results x where x.seq = u.seq and x.purge_on = u.day) s on true
    order by u.nth;
end $$;

grant execute on function lock_receipts(integer) to despatch_worker;
