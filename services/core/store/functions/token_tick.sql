-- Returns the tick, a fiftieth of a second since 1970, that ends next (`account_rates`).
create or replace function token_tick(at_now timestamptz) returns bigint language sql immutable parallel safe as $$
  select ceil(extract(epoch from at_now) * 50)::bigint
$$;
