-- Cancels those of these messages of the transaction's tenant that wait, and returns each that is live in the state in which
-- its row was locked. A claim changes the same row: it comes first, and the message is found `sending`, or it waits for the
-- commit and finds no row. What a provider has accepted, and waits for another account, is found `sent`: nobody can take that back.
create or replace function cancel_messages(seqs bigint[]) returns table (seq bigint, found text)
language plpgsql security definer set search_path = despatch, pg_temp set plan_cache_mode = force_generic_plan
  set enable_seqscan = off set enable_bitmapscan = off set enable_hashjoin = off set enable_mergejoin = off set jit = off as $$
#variable_conflict use_column
declare
  live bigint[];
  waiting bigint[];
  states text[];
begin
  -- In the order in which others lock the same rows.
  select array_agg(x.seq), array_agg(case when x.sent_attempt is null then x.status else 'sent' end),
    array_agg(x.seq) filter (where x.sent_attempt is null)
  into live, states, waiting from (
    select l.seq, l.status, l.sent_attempt from live_messages l
    where l.seq = any (seqs) and l.tenant_id = current_tenant()
    order by l.seq for update) x;
  -- Tests break this (mutant: cancel-claim): of what was canceled no row is left that could be claimed.
  perform move_messages(waiting, 'canceled', null);
  return query select u.seq, u.found from unnest(live, states) as u (seq, found);
end $$;

grant execute on function cancel_messages(bigint[]) to despatch_api;
