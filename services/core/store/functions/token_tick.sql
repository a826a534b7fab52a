-- Returns the tick since 1970 that ends next (`ticks_per_second`).
create or replace function token_tick(at_now timestamptz) returns bigint language sql immutable parallel safe as $$
  select ceil(extract(epoch from at_now) * ticks_per_second())::bigint
$$;
