-- Takes tokens for calls to an endpoint, at most `most` and no more than `wanted`; all workers share them, and within any second
-- they take no more than `per_second`. The caller has locked the endpoint's row. Returns how many it took.
create or replace function take_endpoint_tokens(for_endpoint uuid, per_second integer, most integer, wanted integer) returns integer
language plpgsql set search_path = despatch, pg_temp as $$
declare
  at_now timestamptz := clock_timestamp();
  counted account_rates;
  taking integer;
begin
  select * into counted from account_rates r where r.account_id = for_endpoint order by r.slot desc limit 1;
  taking := greatest(0, least(most, wanted, per_second - tokens_used(counted, at_now)));
  perform store_tokens(for_endpoint, counted, at_now, taking);
  return taking;
end $$;
