-- Cancels those of these messages of the transaction's tenant that wait, and returns the state in which each live one was found
-- when its row was locked. A claim changes the same row: either it commits first and the message is found `sending`, or it waits
-- for this commit and finds no row. A message that a provider has accepted, and that waits for another account, is reported as
-- `sent`: it can no longer be canceled.
create or replace function cancel_messages(seqs bigint[]) returns table (seq bigint, found text)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  live bigint[];
  waiting bigint[];
  states text[];
begin
  -- In the order in which other transactions lock the same rows, to avoid deadlocks.
  select array_agg(x.seq), array_agg(case when x.sent_attempt is null then x.status else 'sent' end),
    array_agg(x.seq) filter (where x.sent_attempt is null)
  into live, states, waiting from (
    select l.seq, l.status, l.sent_attempt from live_messages l
    where l.seq = any (seqs) and l.tenant_id = current_tenant()
    order by l.seq for update) x;
  -- Tests break this (mutant: cancel-claim): a canceled message leaves no row that could be claimed.
  perform move_messages(waiting, 'canceled', null);
  return query select u.seq, u.found from unnest(live, states) as u (seq, found);
end $$;

grant execute on function cancel_messages(bigint[]) to despatch_api;
