-- Claims from lanes; a lane is a tenant's queue for one account. `lanes`: {tenant_id, account_id, most, ahead_ms, due_from, aside},
-- each lane once; `due_from` as for `due_floor`; `aside`: messages to leave out, null if there are none. Takes messages that are
-- due, or will be within `ahead_ms` unless a timer holds them back; higher priorities first, and within a priority those due
-- longest. This recovers from lost wake-ups, serves retry timers and a queue that outgrew a worker's memory, and is the only way to
-- claim for an account with a rate limit: it claims no more messages than the account has tokens, and no more than `bytes_max` of
-- contents (`within_bytes`). It claims nothing from a held channel, and from a slowed one only as many as have a turn
-- (`take_brake_turns`).
create or replace function claim_due(lanes json, by_worker text, lease_ms integer, bytes_max integer)
returns setof claimed_message
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  number integer;
  lane record;
  ready bigint[];
  bytes bigint;
  claimed bigint[] := '{}';
  accounts uuid[] := '{}';
begin
  -- Until the commit: `claimed_by` must not search before it.
  perform pg_advisory_xact_lock_shared(hashtext('despatch.claims'), hashtext(by_worker));
  -- Before any row is locked, because it may wait for another first claim of this worker.
  number := worker_number(by_worker);
  -- All workers lock the tokens of accounts in this order, to avoid deadlocks.
  for lane in
    select x.tenant_id, x.account_id, x.most, x.ahead_ms, x.due_from, x.aside, p.id is not null as is_usable,
      p.rate_limit_per_second, b.channel as slowed_channel
    from json_to_recordset(lanes) as x (tenant_id uuid, account_id uuid, most integer, ahead_ms integer, due_from float8[],
      aside bigint[])
    join tenants t on t.id = x.tenant_id and t.status = 'active'
    left join provider_accounts p on p.id = x.account_id and p.status not in ('disabled', 'deleted')
    left join brakes b on b.tenant_id = any (array[x.tenant_id]) and b.channel = p.channel and b.level is not null
    where b.level is distinct from 'held'
    order by x.account_id
  loop
    select array_agg(y.seq), sum(y.content_bytes) into ready, bytes from (
      select l.seq, l.content_bytes
      from (values (0::smallint), (1::smallint), (2::smallint)) as p (priority),
      -- Row by row, up to the outer limits: of the messages that are not claimed, only those are locked that must end instead.
      lateral (
        select z.seq, z.content_bytes from (
          select x.seq, x.content_bytes, x.tenant_id, x.address_key, x.marketing, x.test, x.expires_at from live_messages x
          where x.tenant_id = lane.tenant_id and x.account_id = lane.account_id and x.priority = p.priority
            and x.due_at >= due_floor(lane.due_from, p.priority)
            and x.due_at <= at_now + make_interval(secs => lane.ahead_ms / 1000.0)
            -- Tests break this (mutant: claim-due): a message is claimed only while no attempt is under way.
            and x.status in ('queued', 'deferred') and coalesce(x.next_attempt_at, '-infinity') <= at_now
            and (lane.aside is null or x.seq <> all (lane.aside))
          -- Passes over 1,000 that must end, and leaves the others behind them until a review has ended them: a lane may have
          -- millions, and the lanes of other tenants wait for this one.
          order by x.due_at limit lane.most + 1000 for update skip locked
        ) z
        where z.expires_at > at_now and (z.test or lane.is_usable)
          -- A message that `begin_attempts` would skip uses up no token and no place of another message.
          and (select true from suppressions_now s
            where s.address_key = z.address_key and s.tenant_id is not distinct from z.tenant_id
              and (s.scope = 'all' or z.marketing) limit 1) is null
        limit lane.most
      ) l limit lane.most) y;
    if bytes > bytes_max then
      ready := within_bytes(ready, bytes_max);
    end if;
    if lane.rate_limit_per_second is not null and cardinality(ready) > 0 then
      ready := take_account_tokens(lane.account_id, lane.rate_limit_per_second, ready);
    end if;
    if lane.slowed_channel is not null and cardinality(ready) > 0 then
      ready := take_brake_turns(lane.tenant_id, lane.slowed_channel, ready);
    end if;
    claimed := claimed || coalesce(ready, '{}');
    accounts := accounts || array_fill(lane.account_id, array[coalesce(cardinality(ready), 0)]);
  end loop;
  if cardinality(claimed) > 0 then
    return query select * from begin_attempts(claimed, accounts, number, lease_ms);
  end if;
end $$;

grant execute on function claim_due(json, text, integer, integer) to despatch_worker;
