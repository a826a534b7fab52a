-- Ends messages that no call will be made for, where they are in one of these states. Returns those that were.
create or replace function end_live(seqs bigint[], from_statuses text[], to_status text, of_failure jsonb) returns setof bigint
language plpgsql set search_path = despatch, pg_temp as $$
declare
  at_now timestamptz := clock_timestamp();
  ended live_messages[];
begin
  with gone as (
    delete from live_messages l
    using (select x.seq from live_messages x where x.seq = any (seqs) order by x.seq for update) locked
    where l.seq = locked.seq and l.status = any (from_statuses)
    returning l
  )
  select array_agg(l) into ended from gone;
  insert into message_results (seq, purge_on, tenant_id, status, reason, attempt, duplicate_risk, account_id, provider,
    failure, final, expires_at, completed_at, updated_at)
  select l.seq, l.purge_on, l.tenant_id, to_status, l.reason, l.attempt, l.duplicate_risk,
    case when l.attempt > 0 and not l.test then l.account_id end, l.provider, coalesce(of_failure, l.failure), true,
    l.expires_at, at_now, at_now
  from unnest(ended) l;
  insert into event_log (message_seq, purge_on, tenant_id, type, source, at)
  select l.seq, l.purge_on, l.tenant_id, 'message.' || to_status, 'worker', at_now from unnest(ended) l;
  perform discard_contents(array(select l.seq from unnest(ended) l), array(select l.purge_on from unnest(ended) l));
  perform count_finished(array(select l.tenant_id from unnest(ended) l));
  return query select l.seq from unnest(ended) l;
end $$;
