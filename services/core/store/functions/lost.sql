-- Returns those of these messages whose attempt's lease has ended: no worker will record that attempt any more.
create or replace function lost(seqs bigint[]) returns setof claimed_message
language plpgsql stable security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
begin
  return query select c.* from claimed_message c where c.seq = any (seqs) and c.action = 'lost';
end $$;

grant execute on function lost(bigint[]) to despatch_worker;
