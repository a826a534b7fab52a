-- Begins an attempt for each of these messages, which the caller found ready and in the lane of the given account. A provider is
-- called only after this write is committed. The caller need not lock the rows, because a lock would log half as much again as
-- the update; rows that changed since the caller read them, were taken by another claim, or have a suppressed recipient are
-- skipped. Details are read one retention week at a time, because then all other partitions are pruned before execution starts;
-- for a small batch that is most of the work.
create or replace function begin_attempts(seqs bigint[], accounts uuid[], by_worker integer, lease_ms integer)
returns setof claimed_message
language plpgsql set search_path = despatch, pg_temp as $$
declare
  at_now timestamptz := clock_timestamp();
  begun_seqs bigint[];
  days date[];
  day date;
begin
  with begun as (
    update live_messages l
    set status = 'sending', attempt = l.attempt + 1, worker = by_worker, started_at = at_now,
      provider = case when l.test then 'simulator-' || l.channel
        else (select p.provider from provider_accounts p where p.id = l.account_id) end,
      lease_until = at_now + make_interval(secs => lease_ms / 1000.0), next_attempt_at = null
    from (
      -- In the statement that begins the attempts, and after `at_now`: it sees every suppression committed by then. Nested scalar
      -- subqueries are evaluated row by row; a planner that believes the tables to be nearly empty could start a join by scanning
      -- one of them whole.
      select a.seq, a.account_id from unnest(seqs, accounts) as a (seq, account_id)
      where (select (
          -- Tests break this (mutant: suppressed-claim): no attempt begins after the commit that suppresses its recipient.
          select true from suppressions_now s
          where s.address_key = x.address_key and s.tenant_id is not distinct from x.tenant_id
            and (s.scope = 'all' or x.marketing) limit 1)
        from live_messages x where x.seq = a.seq) is null
    ) u
    -- Tests break this (mutant: begin-attempt): an attempt begins only where the table of moves allows it.
    -- The account is not compared with `=`: with few messages the planner could prefer the index that has the account as its
    -- second column to the primary key.
    where l.seq = any (array[u.seq]) and l.account_id is not distinct from u.account_id and may_move(l.status, 'sending')
      and l.expires_at > at_now and coalesce(l.next_attempt_at, '-infinity') <= at_now
    returning l.seq, l.purge_on
  )
  select array_agg(b.seq), array_agg(distinct b.purge_on) into begun_seqs, days from begun b;
  foreach day in array coalesce(days, '{}') loop
    return query select c.* from claimed_message c where c.seq = any (begun_seqs) and c.purge_on = day;
  end loop;
end $$;
