-- Puts messages that wait for a call into the queue of another account, where none is due before now (`due_floor`). Returns those that were still waiting.
create or replace function assign_accounts(seqs bigint[], accounts uuid[]) returns setof bigint
language sql security definer set search_path = despatch, pg_temp set enable_seqscan = off as $$
  update live_messages l set account_id = u.account, due_at = greatest(l.due_at, clock_timestamp()), updated_at = clock_timestamp()
  from (select x.seq from live_messages x where x.seq = any (seqs) order by x.seq for update) locked
  join unnest(seqs, accounts) as u (seq, account) on u.seq = locked.seq
  where l.seq = locked.seq and l.status in ('queued', 'deferred')
    and exists (select from provider_accounts p where p.id = u.account and p.tenant_id = l.tenant_id)
  returning l.seq
$$;

grant execute on function assign_accounts(bigint[], uuid[]) to despatch_worker;
