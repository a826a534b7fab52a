-- Resumes lookups for an account that could not be asked and has changed since: its credential may be a new one.
create or replace function resume_lookups(account uuid) returns void
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
declare
  at_now timestamptz := clock_timestamp();
begin
  if not exists (select from lookup_turns t where t.account_id = account and t.failures > 0) then
    return;
  end if;
  -- Questions that failed and were postponed; the account's other lookups have been due all along.
  update lookups l set ask_at = at_now where l.seq = any (array(
    select x.seq from lookups x where x.account_id = account and x.ask_at > at_now and x.ask_at < 'infinity'
    order by x.ask_at limit 1000 for update skip locked));
  update lookup_turns t set next_at = at_now, open_at = at_now where t.account_id = account and t.failures > 0;
end $$;

grant execute on function resume_lookups(uuid) to despatch_worker;
