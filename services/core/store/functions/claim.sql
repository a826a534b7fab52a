-- Claims the messages that wake-ups name, by compare-and-set. A message that is not returned was claimed by another worker, has
-- ended, or needs a decision (`find_waiting`): its tenant is not active, it has expired, its recipient is suppressed, its account
-- cannot be used or has a rate limit and so is claimed from its lane only (`claim_due`), or its channel is slowed or held.
-- `beyond_limit` ignores rate limits and slowed channels, for a claim that is rolled back: it finds out which message makes claims
-- fail. `bytes_max`: maximum for the contents of a claim (`within_bytes`); the messages beyond it are claimed from their lanes.
create or replace function claim(seqs bigint[], by_worker text, lease_ms integer, beyond_limit boolean, bytes_max integer)
returns setof claimed_message
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  number integer;
  ready bigint[];
  accounts uuid[];
  bytes bigint;
begin
  -- Until the commit: `claimed_by` must not search before it.
  perform pg_advisory_xact_lock_shared(hashtext('despatch.claims'), hashtext(by_worker));
  -- Before any row is locked, because it may wait for another first claim of this worker.
  number := worker_number(by_worker);
  -- Sorted by number, the order in which every transaction that can wait locks these rows.
  select array_agg(x.seq order by x.seq), array_agg(x.account_id order by x.seq), sum(x.content_bytes)
  into ready, accounts, bytes from (
    select l.seq, l.account_id, l.content_bytes from live_messages l
    join tenants t on t.id = any (array[l.tenant_id])
    left join provider_accounts p on p.id = l.account_id
    left join brakes b on b.tenant_id = any (array[l.tenant_id]) and b.channel = l.channel and b.level is not null
    -- Tests break this (mutant: claim-named): a message is claimed only while no attempt is under way.
    where l.seq = any (seqs) and l.status in ('queued', 'deferred') and t.status = 'active'
      and l.expires_at > clock_timestamp() and coalesce(l.next_attempt_at, '-infinity') <= clock_timestamp()
      and (l.test or (p.status not in ('disabled', 'deleted') and (beyond_limit or p.rate_limit_per_second is null)
        and (b.level is null or (beyond_limit and b.level = 'slowed'))))) x;
  if bytes > bytes_max then
    select array_agg(u.seq order by u.seq), array_agg(u.account_id order by u.seq) into ready, accounts
    from unnest(ready, accounts) as u (seq, account_id) where u.seq = any (within_bytes(ready, bytes_max));
  end if;
  if ready is not null then
    return query select * from begin_attempts(ready, accounts, number, lease_ms);
  end if;
end $$;

grant execute on function claim(bigint[], text, integer, boolean, integer) to despatch_worker;
