-- Takes tokens of the current second for messages in their order, one per segment; all workers share them. Returns the messages
-- that got their tokens. A message larger than the limit passes too, alone in its second.
create or replace function take_account_tokens(for_account uuid, per_second integer, seqs bigint[]) returns bigint[]
language plpgsql set search_path = despatch, pg_temp as $$
declare
  this_second bigint;
  counted account_rates;
  used_up integer;
  passed bigint[];
  taken integer;
begin
  perform lock_counters('tokens', array[for_account]);
  select * into counted from account_rates r where r.account_id = for_account order by r.slot desc limit 1;
  -- After the lock, because acquiring it may take time.
  this_second := floor(extract(epoch from clock_timestamp()));
  -- A second in the future means that the clock has gone back: its tokens count for the current second.
  used_up := case when counted.second >= this_second then counted.used else 0 end;
  select array_agg(x.seq order by x.n), coalesce(max(x.reach), 0) into passed, taken from (
    select o.seq, o.n, sum(coalesce(l.segments, 1)) over (order by o.n) as reach
    from unnest(seqs) with ordinality as o (seq, n) join live_messages l on l.seq = any (array[o.seq])
  ) x where used_up + x.reach <= per_second or (used_up = 0 and x.n = 1);
  if counted.account_id is not null and (counted.second, counted.used) = (this_second, used_up + taken) then
    return coalesce(passed, '{}');
  end if;
  perform store_tokens(for_account, counted, this_second, used_up + taken);
  return coalesce(passed, '{}');
end $$;
