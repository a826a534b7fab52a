-- Returns those of these messages whose attempt under way this start of a worker has begun; the worker calls it after it lost the
-- answer to a claim that may have taken them. Fails with `lock_not_available` while a claim of this start runs or commits, because
-- what that claim takes is not visible yet.
-- Returns attempts with at least half of their lease left or, with `late`, the others: for those, a call could outlast the lease.
-- Ordered by number, after `after_seq`; at most as many as a claim takes, and `bytes_max` of contents (`within_bytes`).
create or replace function claimed_by(seqs bigint[], by_worker text, late boolean, after_seq bigint, bytes_max integer)
returns setof claimed_message
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  if not pg_try_advisory_xact_lock(hashtext('despatch.claims'), hashtext(by_worker)) then
    raise exception 'a claim of this worker has not ended' using errcode = 'lock_not_available';
  end if;
  -- Volatile, so that this statement sees what was committed before the lock was taken.
  return query select c.* from claimed_message c where c.seq = any (within_bytes(array(
    select l.seq from live_messages l
    where l.seq = any (seqs) and l.seq > after_seq
      and l.status = 'sending' and l.worker = (select w.id from workers w where w.name = by_worker)
      and late = (clock_timestamp() >= l.started_at + (l.lease_until - l.started_at) / 2) and clock_timestamp() < l.lease_until
    order by l.seq limit 128), bytes_max)) order by c.seq;
end $$;

grant execute on function claimed_by(bigint[], text, boolean, bigint, integer) to despatch_worker;
