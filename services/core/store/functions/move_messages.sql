-- Moves messages on that no call is under way for, where `may_move` lets them: puts them aside (`held`), gives them back, or
-- ends them, with the reason in `of_failure`. One that is `sending` is left alone, as the end of its attempt moves it
-- (`complete`). Returns those that were moved.
create or replace function move_messages(seqs bigint[], to_status text, of_failure jsonb) returns setof bigint
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz;
  movable bigint[];
  days date[];
  tenants uuid[];
begin
  -- In the order in which others lock the same rows.
  select array_agg(x.seq), array_agg(x.purge_on), array_agg(x.tenant_id) into movable, days, tenants from (
    select l.seq, l.purge_on, l.tenant_id from live_messages l
    where l.seq = any (seqs) and l.status <> 'sending' and may_move(l.status, to_status)
    order by l.seq for update) x;
  if movable is null then
    return;
  end if;
  -- After the locks, as they may have been waited for.
  at_now := clock_timestamp();
  insert into event_log (message_seq, purge_on, tenant_id, type, source, at)
  select l.seq, l.purge_on, l.tenant_id,
    'message.' || case when l.status = 'held' and is_live(to_status) then 'released' else to_status end,
    case when is_live(to_status) then 'system' else 'worker' end, at_now
  from live_messages l where l.seq = any (movable);
  if is_live(to_status) then
    update live_messages l
    set status = to_status, held_from = case when to_status = 'held' then l.status end,
      held_at = case when to_status = 'held' then at_now end,
      -- Time in `held` does not count toward expiry.
      expires_at = l.expires_at + coalesce(at_now - l.held_at, interval '0'),
      due_at = case when to_status = 'held' then 'infinity' else coalesce(l.next_attempt_at, at_now) end, updated_at = at_now
    where l.seq = any (movable);
  else
    with ended as (
      delete from live_messages l where l.seq = any (movable) returning l.*
    )
    insert into message_results (seq, purge_on, tenant_id, status, reason, attempt, duplicate_risk, account_id, provider,
      failure, final, expires_at, completed_at, updated_at)
    select e.seq, e.purge_on, e.tenant_id, to_status, e.reason, e.attempt, e.duplicate_risk,
      case when e.attempt > 0 and not e.test then e.account_id end, e.provider, coalesce(of_failure, e.failure), true,
      e.expires_at, at_now, at_now
    from ended e;
    perform discard_contents(movable, days);
    perform count_finished(tenants);
  end if;
  return query select unnest(movable);
end $$;

grant execute on function move_messages(bigint[], text, jsonb) to despatch_worker;
