-- Begins an attempt for each of these messages, whose rows the caller has locked and found ready: no provider is called
-- without what is written here. One retention week at a time: all other partitions are left out before the look-up
-- begins, which for a small batch is most of the work.
create or replace function begin_attempts(seqs bigint[], by_worker text, lease_ms integer) returns setof claimed_message
language plpgsql set search_path = despatch, pg_temp as $$
declare
  at_now timestamptz := clock_timestamp();
  days date[];
  day date;
begin
  with begun as (
    update live_messages l
    set status = 'sending', attempt = l.attempt + 1, attempt_id = gen_random_uuid(), worker = by_worker, started_at = at_now,
      provider = case when l.test then 'simulator-' || l.channel
        else (select p.provider from provider_accounts p where p.id = l.account_id) end,
      lease_until = at_now + make_interval(secs => lease_ms / 1000.0), next_attempt_at = null, updated_at = at_now
    -- Tests break this (mutant: begin-attempt): an attempt begins only where the table of moves allows it.
    where l.seq = any (seqs) and may_move(l.status, 'sending')
    returning l.purge_on
  )
  select array_agg(distinct purge_on) into days from begun;
  foreach day in array coalesce(days, '{}') loop
    return query select c.* from claimed_message c where c.seq = any (seqs) and c.purge_on = day;
  end loop;
end $$;
