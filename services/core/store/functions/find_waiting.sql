-- Returns the facts that decide about messages a claim left out. Takes no lock.
create or replace function find_waiting(seqs bigint[]) returns setof waiting_message
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  return query select w.* from waiting_message w where w.seq = any (seqs);
end $$;

grant execute on function find_waiting(bigint[]) to despatch_worker;
