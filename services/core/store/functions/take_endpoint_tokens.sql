-- Takes tokens of the current second for calls to an endpoint, at most `most` and no more than `wanted`; all workers share them.
-- The caller has locked the endpoint's row. Returns how many it took.
create or replace function take_endpoint_tokens(for_endpoint uuid, per_second integer, most integer, wanted integer) returns integer
language plpgsql set search_path = despatch, pg_temp as $$
declare
  this_second bigint := floor(extract(epoch from clock_timestamp()));
  counted account_rates;
  used_up integer;
  taken integer;
begin
  select * into counted from account_rates r where r.account_id = for_endpoint order by r.slot desc limit 1;
  -- A second in the future means that the clock has gone back: its tokens count for the current second. That is stored even if none
  -- is left, because they would otherwise count for every second until the clock is back where it was.
  used_up := case when counted.second >= this_second then counted.used else 0 end;
  taken := greatest(0, least(most, wanted, per_second - used_up));
  if taken = 0 and coalesce(counted.second <= this_second, true) then
    return 0;
  end if;
  perform store_tokens(for_endpoint, counted, this_second, used_up + taken);
  return taken;
end $$;
