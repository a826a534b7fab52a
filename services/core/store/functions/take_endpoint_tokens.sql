-- Takes tokens of the current second for calls to an endpoint, at most `most` and no more than `wanted`, shared by all workers.
-- Who calls has locked the endpoint's row. Returns how many.
create or replace function take_endpoint_tokens(for_endpoint uuid, per_second integer, most integer, wanted integer) returns integer
language plpgsql set search_path = despatch, pg_temp as $$
declare
  this_second bigint := floor(extract(epoch from clock_timestamp()));
  counted account_rates;
  used_up integer;
  taken integer;
begin
  select * into counted from account_rates r where r.account_id = for_endpoint order by r.slot desc limit 1;
  -- A second of the future: the clock has gone back, and what was taken counts for this one.
  used_up := case when counted.second >= this_second then counted.used else 0 end;
  taken := greatest(0, least(most, wanted, per_second - used_up));
  if taken = 0 then
    return 0;
  end if;
  perform store_tokens(for_endpoint, counted, this_second, used_up + taken);
  return taken;
end $$;
