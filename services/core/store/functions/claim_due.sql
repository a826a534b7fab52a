-- Claims from a lane, which is a tenant's queue for one account: messages that are due, or will be within `ahead_ms` where
-- no timer holds them back; the more urgent first, and of these the longest due. The way back from lost wake-ups, retry timers and a queue that outgrew a worker's memory, and
-- the only way for an account with a rate limit: no more are claimed than it has tokens for, nor than `bytes_max` of their
-- contents (`within_bytes`).
create or replace function claim_due(for_tenant uuid, for_account uuid, most integer, ahead_ms integer, by_worker text, lease_ms integer,
  bytes_max integer)
returns setof claimed_message
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
  account provider_accounts;
  seqs bigint[];
  bytes bigint;
begin
  if not exists (select from tenants t where t.id = for_tenant and t.status = 'active') then
    return;
  end if;
  select * into account from provider_accounts p where p.id = for_account and p.status not in ('disabled', 'deleted');
  select array_agg(y.seq), sum(y.content_bytes) into seqs, bytes from (
    select l.seq, l.content_bytes
    from (values (0::smallint), (1::smallint), (2::smallint)) as p (priority),
    -- Row by row, as far as the outer limit goes: what is not claimed is not locked.
    lateral (
      select x.seq, x.content_bytes from live_messages x
      where x.tenant_id = for_tenant and x.account_id = for_account and x.priority = p.priority
        and x.due_at <= at_now + make_interval(secs => ahead_ms / 1000.0)
        -- Tests break this (mutant: claim-due): a message is claimed only while no attempt is under way.
        and x.status in ('queued', 'deferred')
        and x.expires_at > at_now
        and coalesce(x.next_attempt_at, '-infinity') <= at_now and (x.test or account.id is not null)
      order by x.due_at limit most for update skip locked
    ) l limit most) y;
  if bytes > bytes_max then
    seqs := within_bytes(seqs, bytes_max);
  end if;
  if account.rate_limit_per_second is not null and cardinality(seqs) > 0 then
    seqs := take_account_tokens(for_account, account.rate_limit_per_second, seqs);
  end if;
  if cardinality(seqs) > 0 then
    return query select * from begin_attempts(seqs, by_worker, lease_ms);
  end if;
end $$;

grant execute on function claim_due(uuid, uuid, integer, integer, text, integer, integer) to despatch_worker;
