-- Returns the facts that decide where messages go after a refused call; only for messages that may go elsewhere, because their
-- sender named no account. `usable`: accounts of the channel, the oldest first, and `providers` the provider of each; `invalid`:
-- accounts whose credential is refused. `tried`: attempts that failed over; permanent refusals always, others only since all
-- accounts were last tried, or (`isEarlier`) while the wait that the account requested is not over. It includes accounts that have
-- accepted the message: they are not called again either. An acceptance does not mean that all were tried. `waitMs`: for how much
-- longer the account asked not to be called; 0 if it did not ask.
create or replace function failover_facts(seqs bigint[])
returns table (seq bigint, version integer, strategy text, steps json, failover_on text[], usable uuid[], invalid uuid[], providers text[], tried json)
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  return query
    select l.seq, r.version, r.strategy, r.steps, r.failover_on,
      array(select p.id from provider_accounts p where p.tenant_id = l.tenant_id and p.channel = l.channel
        and p.status not in ('disabled', 'deleted') order by p.seq),
      array(select p.id from provider_accounts p where p.tenant_id = l.tenant_id and p.channel = l.channel
        and p.status = 'invalid'),
      array(select p.provider from provider_accounts p where p.tenant_id = l.tenant_id and p.channel = l.channel
        and p.status not in ('disabled', 'deleted') order by p.seq),
      case when l.attempt > 1 then (
        select json_agg(json_build_object('accountId', a.account_id, 'isPermanent', a.outcome in ('rejected_permanent', 'accepted'),
          'class', coalesce(a.failure ->> 'class', 'unknown'),
          'waitMs', a.wait_ms, 'isEarlier', not a.is_kept) order by a.number)
        from (
          select g.number, g.account_id, g.outcome, g.failure,
            coalesce(greatest(0, ceil((g.rerouted ->> 'retryAfterMs')::float8
              - 1000 * extract(epoch from clock_timestamp() - g.ended_at))), 0) as wait_ms,
            g.outcome in ('rejected_permanent', 'accepted')
              or g.message_reason is not distinct from 'failed_over' and g.number > coalesce((
                select max(x.number) from attempt_log x
                where x.message_seq = l.seq and x.purge_on = l.purge_on and x.outcome not in ('not_started', 'accepted')
                  and x.message_reason is distinct from 'failed_over'), 0) as is_kept
          from attempt_log g
          where g.message_seq = l.seq and g.purge_on = l.purge_on and g.number < l.attempt) a
        where a.is_kept or a.wait_ms > 0) end
    from live_messages l
    -- `= any (array[…])`, so that the planner never reads the messages in the order of their tenants.
    left join routes r on r.tenant_id = any (array[l.tenant_id]) and r.channel = l.channel and r.replaced_at is null
    where l.seq = any (seqs) and l.status = 'sending' and not l.pinned and not l.test;
end $$;

grant execute on function failover_facts(bigint[]) to despatch_worker;
