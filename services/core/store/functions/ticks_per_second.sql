-- Returns how many ticks a second has, by which used tokens are counted (`account_rates`): enough that a token is given out again
-- soon after its second, and few enough that a row is small.
create or replace function ticks_per_second() returns integer language sql immutable parallel safe as $$ select 50 $$;
