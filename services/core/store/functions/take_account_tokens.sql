-- Takes tokens for messages in their order, one per segment; all workers share them. Returns the messages that got their tokens:
-- within any second no more than `per_second`. A message larger than the limit passes too, alone in its second.
create or replace function take_account_tokens(for_account uuid, per_second integer, seqs bigint[]) returns bigint[]
language plpgsql set search_path = despatch, pg_temp as $$
declare
  at_now timestamptz;
  counted account_rates;
  used_up integer;
  passed bigint[];
  taking integer;
begin
  perform lock_counters('tokens', array[for_account]);
  select * into counted from account_rates r where r.account_id = for_account order by r.slot desc limit 1;
  -- After the lock, because acquiring it may take time.
  at_now := clock_timestamp();
  used_up := tokens_used(counted, at_now);
  select array_agg(x.seq order by x.n), coalesce(max(x.reach), 0) into passed, taking from (
    select o.seq, o.n, sum(coalesce(l.segments, 1)) over (order by o.n) as reach
    from unnest(seqs) with ordinality as o (seq, n) join live_messages l on l.seq = any (array[o.seq])
  ) x where used_up + x.reach <= per_second or (used_up = 0 and x.n = 1);
  perform store_tokens(for_account, counted, at_now, taking);
  return coalesce(passed, '{}');
end $$;
